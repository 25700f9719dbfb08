#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "operator/kube/http_transport.h"
#include "operator/kube/object.h"
#include "tests/operator/kube/tls_server.h"
#include "tests/support/test_flags.h"

// Who is spoken to, and who speaks.
namespace coxswain::kube {
namespace {

using test::Identity;
using test::TlsServer;
using Connection = TlsServer::Connection;

class HttpPeer : public testing::Test {
 protected:
  Identity named(const std::string& name, const std::string& names = "") const {
    return test::make_certificate({.name = name, .alternative_names = names}, &ca_);
  }

  Config config_of(const TlsServer& server) const {
    Config config;
    config.server = server.url();
    config.ca_pem = ca_.certificate_pem;
    return config;
  }

  static Response get(const Config& config) {
    Request request;
    request.target = "/api";
    HttpTransport transport(config);
    return transport.send(request);
  }

  const Identity ca_ =
      test::make_certificate({.name = "ca", .alternative_names = "", .is_ca = true});
};

TEST_F(HttpPeer, speaks_to_a_server_that_is_named_by_its_ipv6_address) {
  const auto tell_request = [](Connection& connection) {
    connection.answer(200, connection.read_request());
  };
  TlsServer server(named("server", "IP:::1"), tell_request, /*ipv6=*/true);
  const Response response = get(config_of(server));
  ASSERT_EQ(response.status, 200) << response.body;
  const std::string host = server.url().substr(8);
  EXPECT_NE(response.body.find("Host:" + host + "\r\n"), std::string::npos) << response.body;
  TlsServer stranger(named("server", "IP:127.0.0.1"), tell_request, /*ipv6=*/true);
  EXPECT_EQ(get(config_of(stranger)).body,
            stranger.url() + ": the server's certificate is refused: IP address mismatch");
}

// A plug-in's certificate is replaced when the server refuses it: by the same call, which then goes
// over a connection that shows the new one.
TEST_F(HttpPeer, shows_another_certificate_after_a_401) {
  const Identity before = named("before"), after = named("after");
  TlsServer server(named("server", "IP:127.0.0.1"), [](Connection& connection) {
    while (!connection.read_request().empty()) {
      const std::string name = connection.client_name();
      connection.answer(name == "before" ? 401 : 200, name);
    }
  });
  server.require_certificate(ca_.certificate_pem);
  const test::TemporaryDirectory directory;
  const auto answer = directory.path() / "answer";
  std::ofstream(answer) << Json{
      {"apiVersion", "v1"},
      {"kind", "ExecCredential"},
      {"status",
       {{"clientCertificateData", after.certificate_pem}, {"clientKeyData", after.key_pem}}}};
  Config config = config_of(server);
  config.client_certificate_pem = before.certificate_pem;
  config.client_key_pem = before.key_pem;
  config.exec = ExecPlugin{"v1", {"cat", answer.string()}, {}};
  EXPECT_EQ(get(config).body, "after");
  EXPECT_EQ(server.num_connections(), 2);
}

}  // namespace
}  // namespace coxswain::kube
