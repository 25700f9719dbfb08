#include "trainer/contract/worker/http_endpoint.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace coxswain::contract {

namespace {

using namespace std::chrono_literals;

constexpr auto kDeadline = 5000ms;

std::optional<HttpResponse> answer(const std::string& path) {
  if (path == "/hello") return HttpResponse{.body = "hello\n"};
  if (path == "/big") return HttpResponse{.body = std::string(100000, 'x')};
  if (path == "/moved") return HttpResponse{.status = 302, .body = "elsewhere"};
  if (path == "/throws") throw std::runtime_error("no");
  return std::nullopt;
}

// A plain connection, to say what no client would.
class RawClient {
 public:
  explicit RawClient(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
      throw std::runtime_error("cannot connect");
    }
  }
  ~RawClient() { close(socket_); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  void send(const std::string& text) const {
    // The other side may have hung up already, and says so in what it sent.
    [[maybe_unused]] const auto sent = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
  }

  // All up to the end of the connection; "timeout" when there is none.
  std::string receive() const {
    std::string text;
    char buffer[4096];
    while (true) {
      pollfd readable{.fd = socket_, .events = POLLIN, .revents = 0};
      if (poll(&readable, 1, static_cast<int>(kDeadline.count())) != 1) return "timeout";
      const auto size = recv(socket_, buffer, sizeof(buffer), 0);
      if (size <= 0) return text;
      text.append(buffer, static_cast<std::size_t>(size));
    }
  }

 private:
  int socket_;
};

// A listening socket on ::1, -1 where there is no IPv6, and its port.
std::pair<int, std::uint16_t> listen_on_ipv6() {
  const int listener = socket(AF_INET6, SOCK_STREAM, 0);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  socklen_t size = sizeof(address);
  auto* const place = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener, place, size) != 0 || listen(listener, 1) != 0) return {-1, 0};
  getsockname(listener, place, &size);
  return {listener, ntohs(address.sin6_port)};
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\r')); }

}  // namespace

TEST(HttpEndpoint, answers_get) {
  const HttpEndpoint endpoint("127.0.0.1", 0, answer);
  ASSERT_NE(endpoint.port(), 0);
  EXPECT_EQ(http_get("127.0.0.1", endpoint.port(), "/hello", kDeadline, 4096), "hello\n");
  EXPECT_EQ(http_get("127.0.0.1", endpoint.port(), "/hello?x=1", kDeadline, 4096), "hello\n");
  EXPECT_EQ(http_get("127.0.0.1", endpoint.port(), "/big", kDeadline, 100000)->size(), 100000U);
}

TEST(HttpEndpoint, every_address_is_one_of_ipv6_too) {
  const HttpEndpoint endpoint("::", 0, answer);
  EXPECT_EQ(http_get("127.0.0.1", endpoint.port(), "/hello", kDeadline, 4096), "hello\n");
  const int listener = listen_on_ipv6().first;
  if (listener < 0) GTEST_SKIP() << "no IPv6 here";
  EXPECT_EQ(http_get("::1", endpoint.port(), "/hello", kDeadline, 4096), "hello\n");
  close(listener);
}

TEST(HttpEndpoint, says_what_it_does_not_do) {
  const HttpEndpoint endpoint("127.0.0.1", 0, answer);
  const std::vector<std::pair<std::string, std::string>> cases{
      {"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 OK"},
      {"HEAD /hello HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 OK"},
      {"GET /none HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 404 Not Found"},
      {"POST /hello HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 405 Method Not Allowed"},
      {"GET /throws HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 500 Internal Server Error"},
      {"GET /hello HTTP/1.0\r\n\r\n", "HTTP/1.0 200 OK"},
      {"POST /hello HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", ""},
      {"garbage\r\n\r\n", ""},
      {"GET /" + std::string(9000, 'x') + " HTTP/1.1\r\n\r\n", ""},
      {"GET /hello HTTP/1.1\r\nX: " + std::string(9000, 'x') + "\r\n\r\n", ""},
  };
  for (const auto& [request, status] : cases) {
    const RawClient client(endpoint.port());
    client.send(request);
    EXPECT_EQ(first_line(client.receive()), status) << request.substr(0, 60);
  }
  EXPECT_EQ(http_get("127.0.0.1", endpoint.port(), "/hello", kDeadline, 4096), "hello\n");
}

TEST(HttpEndpoint, serves_others_while_some_connections_say_nothing) {
  const HttpEndpoint endpoint("127.0.0.1", 0, answer);
  std::vector<std::unique_ptr<RawClient>> silent;
  for (int i = 0; i < 31; ++i) silent.push_back(std::make_unique<RawClient>(endpoint.port()));
  EXPECT_EQ(http_get("127.0.0.1", endpoint.port(), "/hello", kDeadline, 4096), "hello\n");
}

TEST(HttpEndpoint, lets_the_next_connection_wait_when_it_has_32) {
  const HttpEndpoint endpoint("127.0.0.1", 0, answer);
  std::vector<std::unique_ptr<RawClient>> silent;
  for (int i = 0; i < 32; ++i) silent.push_back(std::make_unique<RawClient>(endpoint.port()));
  const RawClient waiting(endpoint.port());
  waiting.send("GET /hello HTTP/1.0\r\n\r\n");
  EXPECT_EQ(http_get("127.0.0.1", endpoint.port(), "/hello", 100ms, 4096), std::nullopt);
  silent.clear();
  EXPECT_EQ(first_line(waiting.receive()), "HTTP/1.0 200 OK");
}

TEST(HttpEndpoint, ends_with_connections_open) {
  auto endpoint = std::make_unique<HttpEndpoint>("127.0.0.1", 0, answer);
  const RawClient client(endpoint->port());
  client.send("GET /hel");
  EXPECT_EQ(http_get("127.0.0.1", endpoint->port(), "/hello", kDeadline, 4096), "hello\n");
  endpoint.reset();
  EXPECT_EQ(client.receive(), "");
}

TEST(HttpEndpoint, says_why_an_address_cannot_be_had) {
  const HttpEndpoint first("127.0.0.1", 0, answer);
  const auto message = [](const std::string& address, std::uint16_t port) -> std::string {
    try {
      const HttpEndpoint second(address, port, answer);
      return "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kInternal);
      return error.what();
    }
  };
  EXPECT_EQ(message("127.0.0.1", first.port()),
            fmt::format("[http] cannot listen on 127.0.0.1 port {}: Address already in use",
                        first.port()));
  EXPECT_EQ(message("localhost", 0), "[http] cannot listen on localhost port 0: Invalid argument");
}

TEST(HttpGet, gives_nothing_for_what_is_no_good_answer) {
  const HttpEndpoint endpoint("127.0.0.1", 0, answer);
  EXPECT_EQ(http_get("127.0.0.1", endpoint.port(), "/none", kDeadline, 4096), std::nullopt);
  EXPECT_EQ(http_get("127.0.0.1", endpoint.port(), "/moved", kDeadline, 4096), std::nullopt);
  EXPECT_FALSE(http_get("127.0.0.1", endpoint.port(), "/big", kDeadline, 99999).has_value());
  EXPECT_EQ(http_get("no address", endpoint.port(), "/hello", kDeadline, 4096), std::nullopt);
}

TEST(HttpGet, writes_an_ipv6_address_in_brackets) {
  const auto [listener, port] = listen_on_ipv6();
  if (listener < 0) GTEST_SKIP() << "no IPv6 here";
  std::string request;
  std::jthread server([&, listener = listener] {
    const int client = accept(listener, nullptr, nullptr);
    char buffer[4096];
    const auto size = recv(client, buffer, sizeof(buffer), 0);
    request.assign(buffer, size > 0 ? static_cast<std::size_t>(size) : 0);
    close(client);
  });
  EXPECT_EQ(http_get("::1", port, "/progress", kDeadline, 4096), std::nullopt);
  server.join();
  close(listener);
  EXPECT_NE(request.find("Host: [::1]\r\n"), std::string::npos) << request;
}

TEST(HttpGet, gives_up_at_the_deadline) {
  const int silent = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(silent, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(silent, 1), 0);
  socklen_t size = sizeof(address);
  ASSERT_EQ(getsockname(silent, reinterpret_cast<sockaddr*>(&address), &size), 0);
  EXPECT_EQ(http_get("127.0.0.1", ntohs(address.sin_port), "/", 50ms, 4096), std::nullopt);
  close(silent);
}

}  // namespace coxswain::contract
