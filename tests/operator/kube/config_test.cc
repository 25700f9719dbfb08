#include "operator/kube/config.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "operator/kube/certificates.h"
#include "operator/kube/exec_credential.h"
#include "operator/kube/object.h"
#include "operator/kube/server_url.h"
#include "operator/kube/watched_file.h"
#include "tests/operator/kube/config_fixture.h"
#include "trainer/contract/error.h"

namespace coxswain::kube {
namespace {

const std::string kServer = "server: 'https://10.0.0.1:6443'";

TEST_F(ConfigTest, reads_server_ca_token_and_namespace) {
  const Config config = read_kubeconfig(
      kubeconfig(kServer + ", certificate-authority-data: " + base64(ca_.certificate_pem),
                 "token: s3cret"),
      {});
  EXPECT_EQ(config.server, "https://10.0.0.1:6443");
  EXPECT_EQ(config.ca_pem, ca_.certificate_pem);
  EXPECT_EQ(config.token, "s3cret");
  EXPECT_EQ(config.name_space, "team");
  EXPECT_FALSE(config.insecure);
}

TEST_F(ConfigTest, reads_json_too) {
  const auto file = write("config.json", R"({"current-context":"x",
      "contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}],
      "clusters":[{"name":"c","cluster":{"server":"https://h"}}],
      "users":[{"name":"u","user":null}]})");
  const Config config = read_kubeconfig(file, {});
  EXPECT_EQ(config.server, "https://h");
  EXPECT_EQ(config.name_space, "default");
}

TEST_F(ConfigTest, paths_are_relative_to_the_file) {
  write("pki/ca.crt", ca_.certificate_pem);
  write("pki/me.crt", client_.certificate_pem);
  write("pki/me.key", client_.key_pem);
  write("pki/token", "s3cret\n");
  const Config config = read_kubeconfig(
      kubeconfig(kServer + ", certificate-authority: pki/ca.crt",
                 "client-certificate: pki/me.crt, client-key: pki/me.key, tokenFile: pki/token"),
      {});
  EXPECT_EQ(config.ca_pem, ca_.certificate_pem);
  EXPECT_EQ(config.ca_file, directory_.path() / "pki/ca.crt");
  EXPECT_EQ(config.client_certificate_pem, client_.certificate_pem);
  EXPECT_EQ(config.client_key_pem, client_.key_pem);
  EXPECT_EQ(config.token_file, directory_.path() / "pki/token");
}

TEST_F(ConfigTest, a_file_that_can_not_be_read_is_refused) {
  EXPECT_EQ(error_of(directory_.path() / "none"), "[config] none: not found");
  EXPECT_EQ(error_of(write("empty", "")), "[kube] empty: is empty; write a kubeconfig");
  EXPECT_EQ(error_of(write("text", "hello")), "[kube] text: is no kubeconfig: must be an object");
  EXPECT_EQ(error_of(write("broken", "a: [1, 2")).substr(0, 16), "[config] broken:");
  EXPECT_EQ(error_of(write("pod", "kind: Pod")), "[kube] pod: kind: must be Config");
  EXPECT_EQ(error_of(write("large", std::string((1 << 20) + 1, ' '))),
            "[config] large: above the limit of 1 MiB");
  EXPECT_EQ(
      error_of(write("deep", "a: " + std::string(100, '[') + std::string(100, ']'))).substr(0, 14),
      "[config] deep:");
}

TEST_F(ConfigTest, a_context_cluster_or_user_that_is_not_there_is_refused_with_those_that_are) {
  const std::string lists = "clusters: [{name: c1}, {name: c2}]\nusers: [{name: u1}]\n";
  const std::string contexts =
      "contexts: [{name: a, context: {cluster: c, user: u}}, {name: b, context: {cluster: c1, "
      "user: u}}, {name: d, context: {user: u}}, {name: e}]\n";
  const struct {
    std::string text;
    const char* error;
  } cases[] = {
      {contexts, "current-context: is not set: name one of the contexts: a, b, d, e"},
      {"kind: Config",
       "current-context: is not set, and there are no contexts: is this a kubeconfig?"},
      {"current-context: z\n" + contexts, "contexts: z not found; there are: a, b, d, e"},
      {"current-context: z\ncontexts: 7", "contexts: must be a list"},
      {"current-context: [z]\ncontexts: []", "current-context: must be text"},
      {"current-context: a\n" + contexts + lists, "clusters: c not found; there are: c1, c2"},
      {"current-context: a\n" + contexts, "clusters: c not found: the list is empty"},
      {"current-context: d\n" + contexts, "contexts[2].context.cluster: is missing"},
      {"current-context: e\n" + contexts, "contexts[3].context.cluster: is missing"},
      {"current-context: b\n" + contexts + lists,
       "clusters[0].cluster.server: is missing: write https://host:port"},
      {"current-context: a\ncontexts: [7]", "contexts[0]: must be an object"},
      {"current-context: a\ncontexts: [{name: a, context: 7}]",
       "contexts[0].context: must be an object"},
  };
  for (const auto& [text, error] : cases)
    EXPECT_EQ(error_of(write("config", text)), std::string("[kube] config: ") + error);
  EXPECT_EQ(error_of(write("config", "current-context: b\n" + contexts +
                                         "clusters: [{name: c1, cluster: {server: 'https://h'}}]\n"
                                         "users: [{name: u1}]\n")),
            "[kube] config: users: u not found; there are: u1");
}

TEST_F(ConfigTest, a_cluster_that_can_not_be_trusted_is_refused) {
  const Identity expired = test::make_certificate(
      {.is_ca = true, .valid_from_seconds = -200'000, .valid_to_seconds = -100'000});
  const Identity early = test::make_certificate(
      {.is_ca = true, .valid_from_seconds = 100'000, .valid_to_seconds = 200'000});
  write("garbage.crt", "garbage");
  const struct {
    std::string cluster;
    std::string error;
  } cases[] = {
      {"server: 'file:///etc'", "server: unsupported URL: write https://host:port"},
      {"server: [a]", "server: must be text"},
      {"server: 'https://me:s3cret@h'",
       "server: unsupported URL: a user or password in it: use a token or a client certificate"},
      {"server: 'http://h'",
       "server: plain http sends the token in the clear: write https://, or pass --allow-insecure"},
      {kServer + ", insecure-skip-tls-verify: true",
       "insecure-skip-tls-verify: anybody could pose as the server: give certificate-authority "
       "instead, or pass --allow-insecure"},
      {kServer + ", insecure-skip-tls-verify: maybe",
       "insecure-skip-tls-verify: must be true or false"},
      {kServer + ", certificate-authority-data: '*'", "certificate-authority-data: is no base64"},
      {kServer + ", certificate-authority-data: " + base64("hello"),
       "certificate-authority-data: is no certificate in PEM"},
      {kServer + ", certificate-authority-data: " +
           base64("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
       "certificate-authority-data: holds a damaged certificate"},
      {kServer + ", certificate-authority: none.crt",
       "certificate-authority: none.crt can't be read"},
      {kServer + ", certificate-authority: garbage.crt",
       "certificate-authority: is no certificate in PEM"},
      {kServer + ", proxy-url: 'http://p'", "proxy-url: is not supported"},
      {kServer + ", tls-server-name: x",
       "tls-server-name: is not supported: the server's name must be in its URL"},
  };
  for (const auto& [cluster, error] : cases)
    EXPECT_EQ(error_of(kubeconfig(cluster, "")), "[kube] config: clusters[0].cluster." + error);
  EXPECT_NE(error_of(kubeconfig(kServer + ", certificate-authority-data: " +
                                    base64(expired.certificate_pem),
                                ""))
                .find("certificate-authority-data: expired on 20"),
            std::string::npos);
  EXPECT_NE(
      error_of(kubeconfig(
                   kServer + ", certificate-authority-data: " + base64(early.certificate_pem), ""))
          .find("certificate-authority-data: is not valid before 20"),
      std::string::npos);
  EXPECT_EQ(error_of(kubeconfig(kServer + ", certificate-authority-data: " +
                                    base64(expired.certificate_pem + ca_.certificate_pem),
                                "")),
            "");
}

TEST_F(ConfigTest, what_is_insecure_needs_a_flag) {
  const ConfigRules insecure{.allow_insecure = true, .allow_exec = false};
  EXPECT_EQ(read_kubeconfig(kubeconfig("server: 'http://h'", ""), insecure).server, "http://h");
  EXPECT_TRUE(
      read_kubeconfig(kubeconfig(kServer + ", insecure-skip-tls-verify: true", ""), insecure)
          .insecure);
}

TEST_F(ConfigTest, a_user_that_can_not_be_is_refused) {
  const std::string certificate = "client-certificate-data: " + base64(client_.certificate_pem);
  const Identity locked{client_.certificate_pem,
                        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n"
                        "-----END ENCRYPTED PRIVATE KEY-----\n"};
  write("bad.token", "two words");
  write("empty.token", "\n");
  const struct {
    std::string user;
    std::string error;
  } cases[] = {
      {certificate, "client-certificate-data: is given without client-key"},
      {"client-key-data: " + base64(client_.key_pem),
       "client-key-data: is given without client-certificate"},
      {certificate + ", client-key-data: " + base64(ca_.key_pem),
       "client-key-data: does not match the client certificate"},
      {certificate + ", client-key-data: " + base64("x"),
       "client-key-data: is no private key in PEM, or needs a pass phrase"},
      {certificate + ", client-key-data: " + base64(locked.key_pem),
       "client-key-data: is no private key in PEM, or needs a pass phrase"},
      {certificate + ", client-key-data: '%'", "client-key-data: is no base64"},
      {"client-certificate-data: " + base64("x") + ", client-key-data: " + base64(client_.key_pem),
       "client-certificate-data: is no certificate in PEM"},
      {"client-certificate: none, client-key: none", "client-certificate: none can't be read"},
      {"token: ''", "token: is empty: fill it in, or remove it"},
      {"token: ", "token: is empty: fill it in, or remove it"},
      {"tokenFile: ''", "tokenFile: is empty: fill it in, or remove it"},
      {"client-certificate-data: ' '",
       "client-certificate-data: is empty: fill it in, or remove it"},
      {"token: 'two words'", "token: is no token: it holds spaces or control characters"},
      {"tokenFile: none", "tokenFile: none holds no token, or can't be read"},
      {"tokenFile: empty.token", "tokenFile: empty.token holds no token, or can't be read"},
      {"tokenFile: bad.token", "tokenFile: bad.token holds no token, or can't be read"},
      {"exec: {command: aws}",
       "exec: runs a program for a token, which is not allowed: give a token, tokenFile or client "
       "certificate, or pass --allow-exec"},
      {"auth-provider: {name: gcp}",
       "auth-provider: is not supported (Kubernetes removed it in 1.26): give a token or exec"},
      {"username: me, password: s3cret",
       "username: is not supported: give a token or a client certificate"},
      {"password: s3cret", "password: is not supported: give a token or a client certificate"},
      {"as: somebody", "as: is not supported: act as the user of the token itself"},
  };
  for (const auto& [user, error] : cases) {
    const std::string text = error_of(kubeconfig(kServer, user));
    EXPECT_EQ(text, "[kube] config: users[0].user." + error);
    EXPECT_EQ(text.find("s3cret"), std::string::npos);
  }
}

TEST_F(ConfigTest, runs_an_exec_plug_in_if_allowed) {
  const ConfigRules allowed{.allow_insecure = false, .allow_exec = true};
  const auto program =
      write("bin/login",
            "#!/bin/sh\n"
            "echo \"$KUBERNETES_EXEC_INFO\" >$(dirname $0)/info\n"
            "printf '{\"apiVersion\":\"client.authentication.k8s.io/v1\","
            "\"kind\":\"ExecCredential\",\"status\":{\"token\":\"%s\"}}' \"$1-$WHO\"\n");
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  const Config config = read_kubeconfig(
      kubeconfig(kServer,
                 "exec: {apiVersion: client.authentication.k8s.io/v1, command: bin/login, "
                 "args: ['$(x)'], env: [{name: WHO, value: me}]}"),
      allowed);
  EXPECT_EQ(config.token, "$(x)-me");
  EXPECT_EQ(read_small_file(directory_.path() / "bin/info"),
            "{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\","
            "\"spec\":{\"interactive\":false}}\n");
}

TEST_F(ConfigTest, an_exec_plug_in_that_fails_is_told_without_what_it_printed) {
  const ConfigRules allowed{.allow_insecure = false, .allow_exec = true};
  const std::string version = "apiVersion: client.authentication.k8s.io/v1, ";
  const struct {
    std::string exec;
    std::string error;
  } cases[] = {
      {"command: x",
       "config: users[0].user.exec.apiVersion: must be client.authentication.k8s.io/v1 or "
       ".../v1beta1"},
      {version + "args: []", "config: users[0].user.exec.command: is missing"},
      {version + "command: x, args: 7", "config: users[0].user.exec.args: must be a list of texts"},
      {version + "command: x, args: [[7]]",
       "config: users[0].user.exec.args: must be a list of texts"},
      {version + "command: x, env: 7", "config: users[0].user.exec.env: must be a list"},
      {version + "command: x, env: [7]",
       "config: users[0].user.exec.env: must hold objects with name and value"},
      {version + "command: sh, args: [-c, 'echo s3cret; exit 3']",
       "exec plug-in sh: ended with exit code 3"},
      {version + "command: echo, args: [s3cret]",
       "exec plug-in echo: prints no ExecCredential in JSON"},
      {version + "command: yes", "exec plug-in yes: prints more than 1 MiB"},
  };
  for (const auto& [exec, error] : cases)
    EXPECT_EQ(error_of(kubeconfig(kServer, "exec: {" + exec + "}"), allowed), "[kube] " + error);
  EXPECT_NE(error_of(kubeconfig(kServer, "exec: {" + version + "command: ./none}"), allowed)
                .find("none: No such file"),
            std::string::npos);
}

TEST(ExecCredential, takes_a_token_or_a_certificate_and_nothing_less) {
  const ExecPlugin plugin{"client.authentication.k8s.io/v1", {"p"}, {}};
  const std::string head =
      R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1")";
  const auto [credential, expiry] =
      parse_exec_credential(head + R"(,"status":{"token":"t"}})", plugin);
  EXPECT_EQ(credential.token, "t");
  EXPECT_FALSE(expiry);
  const Identity identity = test::make_certificate({});
  const Json status = {{"clientCertificateData", identity.certificate_pem},
                       {"clientKeyData", identity.key_pem}};
  const std::string whole = head + R"(,"status":)" + status.dump() + "}";
  EXPECT_EQ(parse_exec_credential(whole, plugin).credential.key_pem, identity.key_pem);
  const struct {
    std::string text;
    const char* error;
  } cases[] = {
      {"", "prints no ExecCredential in JSON"},
      {R"({"kind":"Pod"})", "prints no ExecCredential in JSON"},
      {R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1beta1"})",
       "answers in another apiVersion than client.authentication.k8s.io/v1"},
      {head + "}", "its answer has no status"},
      {head + R"(,"status":{"token":7}})", "its answer holds neither a token nor a certificate"},
      {head + R"(,"status":{"token":"a b"}})", "its token holds spaces or control characters"},
      {head + R"(,"status":{"clientCertificateData":"c","clientKeyData":"k"}})",
       "the certificate that it gave is no certificate in PEM"},
      {head + R"(,"status":{"token":"t","expirationTimestamp":"tomorrow"}})",
       "its expirationTimestamp is no time, such as 2026-01-31T12:00:00Z"},
  };
  for (const auto& [text, error] : cases) {
    try {
      (void)parse_exec_credential(text, plugin);
      ADD_FAILURE() << text;
    } catch (const Error& thrown) {
      EXPECT_EQ(std::string(thrown.what()), std::string("[kube] exec plug-in p: ") + error);
    }
  }
}

TEST(ExecCredential, knows_when_it_expires) {
  const ExecPlugin plugin{"v1", {"p"}, {}};
  for (const char* time : {"2026-09-21T14:13:20Z", "2026-09-21T16:13:20+02:00",
                           "2026-09-21T14:13:20.987Z", "2026-09-21T14:13:20.5+00:00"}) {
    const auto answer = parse_exec_credential(
        fmt::format(R"({{"kind":"ExecCredential","apiVersion":"v1","status":{{"token":"t",)"
                    R"("expirationTimestamp":"{}"}}}})",
                    time),
        plugin);
    ASSERT_TRUE(answer.expiry) << time;
    EXPECT_EQ(answer.expiry->time_since_epoch(), std::chrono::seconds(1'790'000'000)) << time;
  }
}

TEST(ServerUrl, takes_https_with_a_plain_host_port_and_path) {
  for (const char* url : {"https://h", "https://h:6443", "https://10.0.0.1:6443/",
                          "https://h/k8s/c-1", "https://[::1]", "https://[fd00::1]:6443/k8s/c-1"})
    EXPECT_EQ(problem_of_server(url, false), std::nullopt) << url;
  EXPECT_EQ(problem_of_server("http://h", true), std::nullopt);
}

TEST(ServerUrl, refuses_the_rest) {
  const struct {
    const char* url;
    const char* problem;
  } cases[] = {
      {"", "unsupported URL: write https://host:port"},
      {"h:6443", "unsupported URL: write https://host:port"},
      {"HTTPS//h", "unsupported URL: write https://host:port"},
      {"file:///", "unsupported URL: write https://host:port"},
      {"https://", "unsupported URL: no valid host in it: write https://host:port"},
      {"https:///x", "unsupported URL: no valid host in it: write https://host:port"},
      {"https://a b", "unsupported URL: no valid host in it: write https://host:port"},
      {"https://h\r\nX: y", "unsupported URL: no valid host in it: write https://host:port"},
      {"https://h?x", "unsupported URL: no valid host in it: write https://host:port"},
      {"https://[::1",
       "unsupported URL: no IPv6 address in the brackets: write "
       "https://[fd00::1]:port"},
      {"https://[fe80::1%25eth0]",
       "unsupported URL: no IPv6 address in the brackets: write "
       "https://[fd00::1]:port"},
      {"https://[h]:1",
       "unsupported URL: no IPv6 address in the brackets: write "
       "https://[fd00::1]:port"},
      {"https://[::1]:0", "unsupported URL: the port must be 1 to 65535"},
      {"https://[::1]6443",
       "unsupported URL: no IPv6 address in the brackets: write "
       "https://[fd00::1]:port"},
      {"https://fd00::1", "unsupported URL: the port must be 1 to 65535"},
      {"https://h:0", "unsupported URL: the port must be 1 to 65535"},
      {"https://h:", "unsupported URL: the port must be 1 to 65535"},
      {"https://h:65536", "unsupported URL: the port must be 1 to 65535"},
      {"https://h/a/../b", "unsupported URL: only a plain path may follow the host"},
      {"https://h//b", "unsupported URL: only a plain path may follow the host"},
      {"https://h/a%2e", "unsupported URL: only a plain path may follow the host"},
      {"https://h/a?b", "unsupported URL: only a plain path may follow the host"},
      {"https://h/a#b", "unsupported URL: only a plain path may follow the host"},
  };
  for (const auto& [url, problem] : cases) EXPECT_EQ(problem_of_server(url, false), problem) << url;
}

}  // namespace
}  // namespace coxswain::kube
