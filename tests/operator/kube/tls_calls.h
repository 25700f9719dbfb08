#pragma once

#include <fmt/format.h>

#include <chrono>
#include <string>

#include "operator/kube/http_transport.h"
#include "tests/operator/kube/tls_server.h"

// A server that calls of the transport can be made to, and the calls.
namespace coxswain::kube {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using test::Identity;
using test::TlsServer;
using Connection = TlsServer::Connection;

inline const Identity& ca() {
  static const Identity identity =
      test::make_certificate({.name = "ca", .alternative_names = "", .is_ca = true});
  return identity;
}
inline const Identity& server_identity() {
  static const Identity identity = test::make_certificate({}, &ca());
  return identity;
}

inline Config config_of(const TlsServer& server) {
  Config config;
  config.server = server.url();
  config.ca_pem = ca().certificate_pem;
  config.token = "s3cret";
  return config;
}

inline Request get(const std::string& target, milliseconds deadline = milliseconds(5000)) {
  Request request;
  request.target = target;
  request.deadline = deadline;
  return request;
}

inline Request post(const std::string& body) {
  Request request = get("/api/v1/pods");
  request.method = Method::kPost;
  request.content_type = "application/json";
  request.body = body;
  return request;
}

// Answers each request with what it was, for as long as the client likes.
inline void echo(Connection& connection) {
  for (std::string request; !(request = connection.read_request()).empty();)
    connection.answer(200, request);
}

// Far above what anything takes on a busy machine, far below the minute that calls may take.
inline constexpr milliseconds kSoon{20'000};

inline milliseconds since(steady_clock::time_point start) {
  return std::chrono::duration_cast<milliseconds>(steady_clock::now() - start);
}

inline const std::string kChunkedHead = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
inline std::string chunk(const std::string& text) {
  return fmt::format("{:x}\r\n{}\r\n", text.size(), text);
}

// A stream that sends one piece and then nothing until the client hangs up.
inline void one_piece(Connection& connection) {
  connection.read_request();
  connection.write(kChunkedHead + chunk("piece"));
  connection.wait_for_end();
}

}  // namespace coxswain::kube
