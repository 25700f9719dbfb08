#include "trainer/contract/worker/http_endpoint.h"

#include <fmt/format.h>
#include <pthread.h>

#include <thread>
#include <utility>  // before Asio 1.74, which forgets it

#include <boost/asio.hpp>
#include <boost/beast.hpp>

namespace coxswain::contract {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Tcp = asio::ip::tcp;

constexpr std::size_t kMaxRequestBytes = 8 * 1024;
constexpr std::chrono::seconds kConnectionDeadline{5};
constexpr int kMaxConnections = 32;

using TextResponse = http::response<http::string_body>;

// What to answer; a handler's exception becomes 500.
HttpResponse answer_for(const http::request<http::empty_body>& request,
                        const HttpHandler& handler) {
  if (request.method() != http::verb::get && request.method() != http::verb::head) {
    return {.status = 405, .body = "GET only\n"};
  }
  const std::string target(request.target());
  try {
    if (auto response = handler(target.substr(0, target.find('?')))) return *std::move(response);
    return {.status = 404, .body = "not found\n"};
  } catch (const std::exception&) {
    return {.status = 500, .body = "internal error\n"};
  }
}

// One connection: one request, one answer, one deadline over both.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Tcp::socket socket, const HttpHandler& handler, std::function<void()> closed)
      : stream_(std::move(socket)), handler_(handler), closed_(std::move(closed)) {
    parser_.header_limit(kMaxRequestBytes);
    parser_.body_limit(0);
  }
  ~Connection() { closed_(); }

  void start() {
    stream_.expires_after(kConnectionDeadline);
    http::async_read(stream_, buffer_, parser_,
                     [self = shared_from_this()](const beast::error_code& error, std::size_t) {
                       if (!error) self->respond();
                     });
  }

 private:
  void respond() {
    const auto& request = parser_.get();
    HttpResponse answer = answer_for(request, handler_);
    response_.result(static_cast<unsigned>(answer.status));
    response_.version(request.version());
    response_.set(http::field::content_type, answer.content_type);
    response_.keep_alive(false);
    response_.body() = std::move(answer.body);
    response_.prepare_payload();
    if (request.method() == http::verb::head) response_.body().clear();
    http::async_write(stream_, response_,
                      [self = shared_from_this()](const beast::error_code&, std::size_t) {
                        beast::error_code ignored;
                        self->stream_.socket().shutdown(Tcp::socket::shutdown_send, ignored);
                      });
  }

  beast::tcp_stream stream_;
  const HttpHandler& handler_;
  std::function<void()> closed_;
  beast::flat_buffer buffer_{kMaxRequestBytes};
  http::request_parser<http::empty_body> parser_;
  TextResponse response_;
};

}  // namespace

struct HttpEndpoint::Server {
  explicit Server(HttpHandler answer) : handler(std::move(answer)) {}

  void listen(const std::string& address, std::uint16_t port) {
    try {
      const Tcp::endpoint place(asio::ip::make_address(address), port);
      bind(place.address().is_v6() && place.address().is_unspecified() ? every_address(port)
                                                                       : place);
      bound_port = acceptor.local_endpoint().port();
    } catch (const boost::system::system_error& error) {
      throw Error(ExitCode::kInternal, fmt::format("[http] cannot listen on {} port {}: {}",
                                                   address, port, error.code().message()));
    }
  }

  // "::", or "0.0.0.0" where there is no IPv6.
  static Tcp::endpoint every_address(std::uint16_t port) {
    asio::io_context io(1);
    Tcp::acceptor probe(io);
    boost::system::error_code error;
    probe.open(Tcp::v6(), error);
    if (!error) probe.set_option(asio::ip::v6_only(false), error);
    if (!error) probe.bind({Tcp::v6(), 0}, error);
    return {error ? Tcp::v4() : Tcp::v6(), port};
  }

  void bind(const Tcp::endpoint& place) {
    acceptor.open(place.protocol());
    acceptor.set_option(Tcp::acceptor::reuse_address(true));
    if (place.address().is_v6() && place.address().is_unspecified())
      acceptor.set_option(asio::ip::v6_only(false));
    acceptor.bind(place);
    acceptor.listen();
  }

  // At most one accept waits; none while the house is full.
  void accept() {
    if (accepting || num_connections >= kMaxConnections) return;
    accepting = true;
    acceptor.async_accept([this](const beast::error_code& error, Tcp::socket socket) {
      accepting = false;
      if (error == asio::error::operation_aborted) return;
      if (error) return accept_later();
      ++num_connections;
      std::make_shared<Connection>(std::move(socket), handler, [this] {
        --num_connections;
        if (!stopping) accept();
      })->start();
      accept();
    });
  }

  // Out of descriptors, say: not again at once.
  void accept_later() {
    retry.expires_after(std::chrono::milliseconds(100));
    retry.async_wait([this](const beast::error_code& error) {
      if (!error) accept();
    });
  }

  void run() {
    accept();
    io.run();
  }

  void stop() {
    asio::post(io, [this] {
      stopping = true;
      io.stop();
    });
  }

  HttpHandler handler;
  std::uint16_t bound_port = 0;
  bool accepting = false;
  bool stopping = false;
  int num_connections = 0;
  asio::io_context io{1};  // destroyed before what its handlers refer to above
  Tcp::acceptor acceptor{io};
  asio::steady_timer retry{io};
  std::jthread thread;
};

HttpEndpoint::HttpEndpoint(const std::string& address, std::uint16_t port, HttpHandler handler)
    : server_(std::make_unique<Server>(std::move(handler))) {
  server_->listen(address, port);
  server_->thread = std::jthread([server = server_.get()] { server->run(); });
  pthread_setname_np(server_->thread.native_handle(), "http");  // as tools of the system show it
}

HttpEndpoint::~HttpEndpoint() {
  server_->stop();
  server_->thread.join();
}

std::uint16_t HttpEndpoint::port() const { return server_->bound_port; }

std::optional<std::string> http_get(const std::string& address, std::uint16_t port,
                                    const std::string& path, std::chrono::milliseconds deadline,
                                    std::size_t max_bytes) try {
  asio::io_context io(1);
  beast::tcp_stream stream(io);
  beast::flat_buffer buffer(kMaxRequestBytes);
  http::request<http::empty_body> request(http::verb::get, path, 11);
  request.set(http::field::host,
              address.find(':') == std::string::npos ? address : "[" + address + "]");
  // The body's buffer has the limit: Beast 1.74 does not hold responses to body_limit.
  http::response_parser<http::basic_dynamic_body<beast::flat_buffer>> parser;
  parser.header_limit(kMaxRequestBytes);
  parser.get().body().max_size(max_bytes);
  bool complete = false;

  stream.expires_after(deadline);
  stream.async_connect(
      {asio::ip::make_address(address), port}, [&](const beast::error_code& error) {
        if (error) return;
        http::async_write(stream, request, [&](const beast::error_code& write_error, std::size_t) {
          if (write_error) return;
          http::async_read(
              stream, buffer, parser,
              [&](const beast::error_code& read_error, std::size_t) { complete = !read_error; });
        });
      });
  io.run();
  if (!complete || parser.get().result() != http::status::ok) return std::nullopt;
  return beast::buffers_to_string(parser.get().body().data());
} catch (const std::exception&) {
  return std::nullopt;
}

}  // namespace coxswain::contract
