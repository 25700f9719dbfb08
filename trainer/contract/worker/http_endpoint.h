#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "trainer/contract/error.h"

namespace coxswain::contract {

struct HttpResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

// Answers GET for a path without its query; nothing = 404. Called on the endpoint's thread.
using HttpHandler = std::function<std::optional<HttpResponse>(const std::string& path)>;

// Resource. A small HTTP/1.1 server on one thread: GET and HEAD only, requests of at most 8 KiB, 5
// s for a connection from accept to the last byte, one request each, at most 32 connections at once
// (more wait).
//
// The constructor throws Error (70) when the address can't be bound, saying why. Afterwards nothing
// is thrown into the caller; a handler that throws answers 500. The destructor closes every
// connection.
class HttpEndpoint {
 public:
  // `address` is numeric: "127.0.0.1", "::1"; "::" is every address, of IPv4 as well, and of IPv4
  // alone where the machine has no IPv6. Port 0 takes a free one.
  HttpEndpoint(const std::string& address, std::uint16_t port, HttpHandler handler);
  ~HttpEndpoint();
  HttpEndpoint(const HttpEndpoint&) = delete;
  HttpEndpoint& operator=(const HttpEndpoint&) = delete;

  std::uint16_t port() const;

 private:
  struct Server;
  std::unique_ptr<Server> server_;
};

// The body of `GET http://address:port path`; nothing on any failure, on a status other than 200,
// on a redirect, past the deadline, or for a body above `max_bytes`. `address` is numeric. Never
// throws.
std::optional<std::string> http_get(const std::string& address, std::uint16_t port,
                                    const std::string& path, std::chrono::milliseconds deadline,
                                    std::size_t max_bytes);

}  // namespace coxswain::contract
