#include "operator/kube/http_transport.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "operator/kube/client.h"
#include "tests/operator/kube/tls_calls.h"
#include "trainer/contract/error.h"

namespace coxswain::kube {
namespace {

// As the operator runs it; a process can say so only once.
class OneHttpThread : public testing::Environment {
 public:
  void SetUp() override {
    setenv("SSL_CERT_FILE", "/dev/null", 1);  // or each connection reads the system's bundle
    limit_http_threads(1);
  }
};
[[maybe_unused]] const testing::Environment* const one_http_thread =
    testing::AddGlobalTestEnvironment(std::make_unique<OneHttpThread>().release());

TEST(HttpTransport, sends_what_was_asked_for) {
  TlsServer server(server_identity(), echo);
  HttpTransport transport(config_of(server));
  const Response answer = transport.send(get("/api/v1/pods?labelSelector=a%2Fb%3Dc&limit=5"));
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(
      answer.body.starts_with("GET /api/v1/pods?labelSelector=a%2Fb%3Dc&limit=5 HTTP/1.1\r\n"))
      << answer.body;
  EXPECT_NE(answer.body.find("\r\nAuthorization:Bearer s3cret\r\n"), std::string::npos);
  EXPECT_NE(answer.body.find("\r\nAccept:application/json\r\n"), std::string::npos);
  for (const auto& [method, word] : {std::pair{Method::kPost, "POST"},
                                     {Method::kPut, "PUT"},
                                     {Method::kPatch, "PATCH"},
                                     {Method::kDelete, "DELETE"}}) {
    Request request = post("{\"a\":1}");
    request.method = method;
    const Response reply = transport.send(request);
    EXPECT_TRUE(reply.body.starts_with(std::string(word) + " /api/v1/pods HTTP/1.1")) << reply.body;
    EXPECT_TRUE(reply.body.ends_with("\r\n\r\n{\"a\":1}")) << reply.body;
    EXPECT_NE(reply.body.find("Content-Type:application/json\r\n"), std::string::npos);
  }
}

TEST(HttpTransport, a_path_before_the_api_is_kept) {
  TlsServer server(server_identity(), echo);
  Config config = config_of(server);
  config.server += "/k8s/clusters/c-1";
  HttpTransport transport(config);
  EXPECT_TRUE(transport.send(get("/api/v1/pods?limit=5"))
                  .body.starts_with("GET /k8s/clusters/c-1/api/v1/pods?limit=5 HTTP/1.1"));
}

TEST(HttpTransport, a_connection_is_kept_for_the_next_call) {
  TlsServer server(server_identity(), echo);
  HttpTransport transport(config_of(server));
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(transport.send(get("/a")).status, 200);
    EXPECT_EQ(transport.send(post("body")).status, 200);
  }
  EXPECT_EQ(server.num_connections(), 1);
}

TEST(HttpTransport, calls_from_many_threads_do_not_mix) {
  TlsServer server(server_identity(), echo);
  HttpTransport transport(config_of(server));
  std::atomic<int> num_right{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 20; ++i) {
          const std::string body = fmt::format("{}-{}", t, i);
          num_right += transport.send(post(body)).body.ends_with("\r\n\r\n" + body);
        }
      });
    }
  }
  EXPECT_EQ(num_right, 160);
  EXPECT_LE(server.num_connections(), 8);
}

TEST(HttpTransport, says_what_status_and_delay_came) {
  TlsServer server(server_identity(), [](Connection& connection) {
    connection.read_request();
    connection.answer(429, "busy", "Retry-After: 7\r\n");
    connection.read_request();
    connection.answer(503, "", "Retry-After: Fri, 07 Nov 2026 23:59:59 GMT\r\n");
    connection.read_request();
    connection.answer(503, "", "Retry-After: 999999\r\n");
    connection.wait_for_end();
  });
  HttpTransport transport(config_of(server));
  const Response first = transport.send(get("/"));
  EXPECT_EQ(first.status, 429);
  EXPECT_EQ(first.retry_after, std::chrono::seconds(7));
  EXPECT_EQ(first.body, "busy");
  EXPECT_EQ(transport.send(get("/")).retry_after, std::nullopt);
  EXPECT_EQ(transport.send(get("/")).retry_after, std::chrono::seconds(3600));
}

TEST(HttpTransport, a_redirect_is_an_answer_and_not_followed) {
  TlsServer elsewhere(server_identity(), echo);
  TlsServer server(server_identity(), [&](Connection& connection) {
    connection.read_request();
    connection.answer(302, "", "Location: " + elsewhere.url() + "/\r\n");
    connection.wait_for_end();
  });
  HttpTransport transport(config_of(server));
  EXPECT_EQ(transport.send(get("/")).status, 302);
  EXPECT_EQ(elsewhere.num_connections(), 0);
}

TEST(HttpTransport, a_kept_connection_that_the_server_closed_is_no_failure_of_the_client) {
  TlsServer server(server_identity(), [](Connection& connection) {
    connection.read_request();
    connection.answer(200, "{}");  // and hangs up, although it did not say so
  });
  HttpTransport transport(config_of(server));
  ClientOptions options;
  options.sleep = [](milliseconds) {};
  Client client(transport, options);
  for (int i = 0; i < 6; ++i) {
    EXPECT_TRUE(client.get(kPods, "ns", "a")) << i;
    EXPECT_TRUE(client.update(kPods, "ns", "a", Json::object())) << i;
  }
}

TEST(HttpTransport, a_request_that_changes_something_is_never_repeated_by_itself) {
  std::atomic<int> num_posts{0};
  TlsServer server(server_identity(), [&](Connection& connection) {
    for (std::string request; !(request = connection.read_request()).empty();) {
      if (request.starts_with("POST") && ++num_posts > 0) return;  // taken, and never answered
      connection.answer(200, "{}");
    }
  });
  HttpTransport transport(config_of(server));
  EXPECT_EQ(transport.send(get("/")).status, 200);
  EXPECT_EQ(transport.send(post("{}")).status, 0);
  EXPECT_EQ(num_posts, 1);
}

TEST(HttpTransport, an_answer_is_the_same_however_it_is_cut) {
  const std::string plain = "HTTP/1.1 201 x\r\nContent-Length: 9\r\n\r\n{\"a\":\"b\"}";
  const std::string chunked =
      "HTTP/1.1 201 x\r\nTransfer-Encoding: "
      "chunked\r\n\r\n5\r\n{\"a\":\r\n4\r\n\"b\"}\r\n0\r\n\r\n";
  for (const std::string& answer : {plain, chunked}) {
    TlsServer server(server_identity(), [&](Connection& connection) {
      for (std::size_t cut = 0; cut <= answer.size(); ++cut) {
        if (connection.read_request().empty()) return;
        if (cut > 0) connection.write(answer.substr(0, cut));
        if (cut < answer.size()) connection.write(answer.substr(cut));
      }
      connection.read_request();
      for (const char byte : answer) connection.write({&byte, 1});
      connection.wait_for_end();
    });
    HttpTransport transport(config_of(server));
    for (std::size_t i = 0; i <= answer.size() + 1; ++i) {
      const Response response = transport.send(get("/"));
      EXPECT_EQ(response.status, 201) << i << response.body;
      EXPECT_EQ(response.body, "{\"a\":\"b\"}") << i;
    }
    EXPECT_EQ(server.num_connections(), 1);
  }
}

TEST(HttpTransport, an_answer_that_breaks_off_is_none) {
  const std::string answers[] = {
      "",
      "HTTP/1.1 2",
      "HTTP/1.1 200 OK\r\nContent-Le",
      "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
      kChunkedHead,
      kChunkedHead + "5\r\nhal",
      kChunkedHead + "5\r\nwhole\r\n",
      kChunkedHead + "zz\r\nwhole\r\n0\r\n\r\n",
      "SSH-2.0-OpenSSH\r\n\r\n",
  };
  for (const std::string& answer : answers) {
    TlsServer server(server_identity(), [&](Connection& connection) {
      connection.read_request();
      if (!answer.empty()) connection.write(answer);
    });
    HttpTransport transport(config_of(server));
    const Response response = transport.send(get("/"));
    EXPECT_EQ(response.status, 0) << answer;
    EXPECT_TRUE(response.body.starts_with(server.url() + ": ")) << response.body;
    EXPECT_EQ(response.body.find("s3cret"), std::string::npos);
    int num_pieces = 0;
    EXPECT_EQ(
        transport.stream(get("/"), {}, [&](std::string_view) { return ++num_pieces > 0; }).status,
        0)
        << answer;
  }
}

TEST(HttpTransport, a_silent_server_costs_the_deadline_and_no_more) {
  const std::string answers[] = {"", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"};
  const char* const texts[] = {"no answer within 100 ms", "no complete answer within 100 ms"};
  for (int i = 0; i < 2; ++i) {
    TlsServer server(server_identity(), [&](Connection& connection) {
      connection.read_request();
      if (!answers[i].empty()) connection.write(answers[i]);
      connection.wait_for_end();
    });
    HttpTransport transport(config_of(server));
    const auto start = steady_clock::now();
    const Response response = transport.send(get("/", milliseconds(100)));
    EXPECT_LT(since(start), kSoon);
    EXPECT_EQ(response.status, 0);
    EXPECT_EQ(response.body, texts[i]);
  }
}

TEST(HttpTransport, calls_given_up_end_at_once_and_so_do_later_ones) {
  std::atomic<bool> has_come{false};
  TlsServer server(server_identity(), [&](Connection& connection) {
    connection.read_request();
    has_come = true;
    connection.wait_for_end();
  });
  HttpTransport transport(config_of(server));
  std::jthread stopper([&] {
    while (!has_come) std::this_thread::yield();
    transport.give_up();
  });
  const auto start = steady_clock::now();
  for (int i = 0; i < 2; ++i) {
    const Response response = transport.send(get("/", milliseconds(60'000)));
    EXPECT_EQ(response.status, 0);
    EXPECT_EQ(response.body, "given up");
  }
  EXPECT_LT(since(start), kSoon);
}

TEST(HttpTransport, no_server_is_said_so) {
  Config config;
  {
    TlsServer server(server_identity(), echo);
    config = config_of(server);
  }
  HttpTransport transport(config);
  const Response response = transport.send(get("/"));
  EXPECT_EQ(response.status, 0);
  EXPECT_NE(response.body.find("Failed to connect"), std::string::npos) << response.body;
}

TEST(HttpTransport, an_answer_over_16_mib_is_given_up) {
  TlsServer server(server_identity(), [](Connection& connection) {
    connection.read_request();
    connection.write(kChunkedHead);
    const std::string piece = chunk(std::string(1 << 20, 'x'));
    for (int i = 0; i < 20 && connection.write(piece); ++i) {
    }
    connection.write("0\r\n\r\n");
  });
  HttpTransport transport(config_of(server));
  const Response response = transport.send(get("/", milliseconds(20'000)));
  EXPECT_EQ(response.status, 0);
  EXPECT_EQ(response.body, "the answer is over 16 MiB");
  EXPECT_TRUE(response.is_too_long);
}

TEST(HttpTransport, refuses_a_server_that_is_not_who_it_should_be) {
  const Identity other_ca =
      test::make_certificate({.name = "other", .alternative_names = "", .is_ca = true});
  const struct {
    Identity identity;
    const char* text;
  } cases[] = {
      {test::make_certificate({.alternative_names = "DNS:elsewhere"}, &ca()),
       "IP address mismatch"},
      {test::make_certificate({.name = "127.0.0.1", .alternative_names = ""}, &ca()),
       "IP address mismatch"},
      {test::make_certificate({.valid_from_seconds = -7200, .valid_to_seconds = -3600}, &ca()),
       "certificate has expired"},
      {test::make_certificate({.valid_from_seconds = 3600, .valid_to_seconds = 7200}, &ca()),
       "certificate is not yet valid"},
      {test::make_certificate({}, &other_ca), "unable to get local issuer certificate"},
      {test::make_certificate({}), "self-signed certificate"},
  };
  for (const auto& [identity, text] : cases) {
    std::atomic<int> num_requests{0};
    TlsServer server(identity, [&](Connection& connection) {
      if (!connection.read_request().empty()) ++num_requests;
    });
    HttpTransport transport(config_of(server));
    const Response response = transport.send(get("/"));
    EXPECT_EQ(response.status, 0);
    EXPECT_EQ(response.body, server.url() + ": the server's certificate is refused: " + text);
    EXPECT_EQ(num_requests, 0) << "the token went to " << text;
  }
}

TEST(HttpTransport, the_systems_certificates_do_not_count_beside_a_ca_of_ours) {
  TlsServer server(server_identity(), echo);
  Config config = config_of(server);
  config.ca_pem.clear();
  HttpTransport of_the_system(config);
  EXPECT_EQ(of_the_system.send(get("/")).status, 0);
  config.insecure = true;
  HttpTransport insecure(config);
  EXPECT_EQ(insecure.send(get("/")).status, 200);
}

TEST(HttpTransport, shows_its_certificate) {
  const auto tell_name = [](Connection& connection) {
    while (!connection.read_request().empty()) connection.answer(200, connection.client_name());
  };
  TlsServer server(server_identity(), tell_name);
  server.require_certificate(ca().certificate_pem);
  Config config = config_of(server);
  HttpTransport without(config);
  EXPECT_EQ(without.send(get("/")).status, 0);
  const Identity client =
      test::make_certificate({.name = "operator", .alternative_names = ""}, &ca());
  config.client_certificate_pem = client.certificate_pem;
  config.client_key_pem = client.key_pem;
  HttpTransport with(config);
  EXPECT_EQ(with.send(get("/")).body, "operator");
}

TEST(HttpTransport, refuses_a_configuration_that_can_not_work) {
  const Identity client = test::make_certificate({});
  const auto message_of = [&](const std::function<void(Config&)>& spoil) {
    Config config;
    config.server = "https://127.0.0.1:1";
    config.ca_pem = ca().certificate_pem;
    config.client_certificate_pem = client.certificate_pem;
    config.client_key_pem = client.key_pem;
    spoil(config);
    try {
      HttpTransport transport(config);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(message_of([](Config&) {}), "");
  EXPECT_EQ(message_of([](Config& config) { config.server = "ftp://x"; }),
            "[kube] ftp://x: unsupported URL: write https://host:port");
  EXPECT_EQ(message_of([](Config& config) { config.ca_pem = "x"; }),
            "[kube] the CA's certificate is no certificate in PEM");
  EXPECT_EQ(message_of([](Config& config) { config.client_certificate_pem = "x"; }),
            "[kube] the client certificate is no certificate in PEM");
  EXPECT_EQ(message_of([](Config& config) { config.client_key_pem = ca().key_pem; }),
            "[kube] the client key does not match the client certificate");
}

TEST(HttpTransport, a_transport_may_go_while_its_server_is_still_silent) {
  TlsServer server(server_identity(), one_piece);
  for (int i = 0; i < 20; ++i) {
    HttpTransport transport(config_of(server));
    EXPECT_EQ(transport.send(get("/", milliseconds(i))).status, 0);
  }
}

}  // namespace
}  // namespace coxswain::kube
