#include "operator/kube/http_transport.h"

#include <cpprest/http_client.h>
#include <fmt/format.h>
#include <openssl/crypto.h>
#include <pplx/threadpool.h>

#include <algorithm>
#include <boost/asio/ssl.hpp>
#include <charconv>
#include <utility>

#include "operator/kube/exchange.h"
#include "operator/kube/http_transport_bodies.h"
#include "operator/kube/server_url.h"
#include "operator/kube/tls_trust.h"
#include "trainer/contract/error.h"

namespace coxswain::kube {

namespace {

namespace http = web::http;

// Longer than any deadline of ours: those end a request, and say so in our words.
constexpr std::chrono::minutes kLibraryTimeout{10};
constexpr int kMaxRetryAfter = 3600;

// Runs what follows at once, on the thread that got there, instead of handing it to another.
class AtOnce final : public pplx::scheduler_interface {
 public:
  void schedule(pplx::TaskProc_t work, void* argument) override { work(argument); }
};

http::method method_of(Method method) {
  switch (method) {
    case Method::kGet:
      return http::methods::GET;
    case Method::kPost:
      return http::methods::POST;
    case Method::kPut:
      return http::methods::PUT;
    case Method::kPatch:
      return http::methods::PATCH;
    case Method::kDelete:
      return http::methods::DEL;
  }
  return http::methods::GET;
}

std::optional<std::chrono::seconds> retry_after_of(const http::http_response& response) {
  const auto header = response.headers().find("Retry-After");
  if (header == response.headers().end()) return std::nullopt;
  const std::string& text = header->second;
  int seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size() || seconds < 0) return std::nullopt;
  return std::chrono::seconds(std::min(seconds, kMaxRetryAfter));
}

std::optional<std::string> token_in(const std::string& bytes) {
  std::string text = trimmed(bytes);
  return is_token(text) ? std::optional(std::move(text)) : std::nullopt;
}

// Value. Who is spoken to; shared with the library's threads, which may end after a transport.
struct Peer {
  std::string server;
  std::shared_ptr<TlsTrust> trust;
};

// Why a request failed, in a line without any of its headers; empty: it did not.
template <class T>
std::string problem_of(const pplx::task<T>& task, const Peer& peer) {
  try {
    task.get();
    return "";
  } catch (const http::http_exception& error) {
    const std::string refused = peer.trust->last_problem();
    std::string text = error.what();
    if (text.find("handshake") == std::string::npos) {
      const std::string cause = error.error_code().message();
      if (text.find(cause) == std::string::npos) text += ": " + cause;
    } else {
      text = refused.empty() ? "TLS handshake failed"
                             : "the server's certificate is refused: " + refused;
    }
    return fmt::format("{}: {}", peer.server, text);
  } catch (const std::exception& error) {
    return fmt::format("{}: {}", peer.server, error.what());
  }
}

// Tells `exchange` of the answer's head, then of its end.
void follow(const pplx::task<http::http_response>& answer, const Peer& peer,
            const std::shared_ptr<Exchange>& exchange, const pplx::task_options& at_once) {
  if (std::string problem = problem_of(answer, peer); !problem.empty()) {
    exchange->end(problem);
    return;
  }
  const http::http_response head = answer.get();
  exchange->begin(head.status_code(), retry_after_of(head));
  head.content_ready().then(
      [peer, exchange](const pplx::task<http::http_response>& body) {
        // Later: the library gives a connection back once this returns, and the caller's next
        // request shall find it.
        crossplat::threadpool::shared_instance().service().post(
            [exchange, problem = problem_of(body, peer)] { exchange->end(problem); });
      },
      at_once);
}

// Ends what the caller has left behind. On the library's own thread: closing a socket elsewhere
// would race with its use there.
class Leaving {
 public:
  Leaving(Exchange& exchange, const pplx::cancellation_token_source& cancellation)
      : exchange_(exchange), cancellation_(cancellation) {}
  Leaving(const Leaving&) = delete;
  Leaving& operator=(const Leaving&) = delete;
  ~Leaving() {
    if (exchange_.leave()) return;
    crossplat::threadpool::shared_instance().service().post(
        [cancellation = cancellation_] { cancellation.cancel(); });
  }

 private:
  Exchange& exchange_;
  const pplx::cancellation_token_source cancellation_;
};

}  // namespace

struct HttpTransport::Connections {
  Connections(const Config& config, const Warn& warn)
      : peer{config.server,
             std::make_shared<TlsTrust>(config, web::uri(config.server).host(), warn)},
        token(config.token_file, config.token, token_in,
              [warn, file = config.token_file.string()] {
                warn(fmt::format("[kube] {} is gone or holds no token: the one before is kept",
                                 file));
              }),
        client(config.server, settings_of(config, peer.trust)) {}

  static http::client::http_client_config settings_of(const Config& config,
                                                      const std::shared_ptr<TlsTrust>& trust) {
    http::client::http_client_config settings;
    settings.set_timeout(kLibraryTimeout);
    settings.set_max_redirects(0);
    settings.set_validate_certificates(!config.insecure);
    // The library keeps this as long as its connections, which refer to `trust`.
    settings.set_ssl_context_callback(
        [trust](boost::asio::ssl::context& context) { trust->apply(context.native_handle()); });
    return settings;
  }

  http::http_request message_of(const Request& request, const std::shared_ptr<Exchange>& exchange) {
    http::http_request message(method_of(request.method));
    message.set_request_uri(web::uri(request.target));
    message.headers().add("Accept", "application/json");
    message.headers().add("User-Agent", "coxswain");
    if (const std::string text = token.text(); !text.empty())
      message.headers().add("Authorization", "Bearer " + text);
    if (!request.body.empty()) {
      message.set_body(Concurrency::streams::istream(make_body_source(request.body)),
                       request.body.size(), request.content_type);
    }
    message.set_response_stream(Concurrency::streams::ostream(make_body_sink(exchange)));
    return message;
  }

  // Sends the request and lets `caller` wait for what comes of it.
  Response run(const Request& request, const std::function<Response(Exchange&)>& caller) try {
    const auto exchange = std::make_shared<Exchange>();
    const pplx::cancellation_token_source cancellation;
    const pplx::task_options options(at_once);
    client.request(message_of(request, exchange), cancellation.get_token())
        .then(
            [whom = peer, exchange, options](const pplx::task<http::http_response>& answer) {
              follow(answer, whom, exchange, options);
            },
            options);
    const Leaving leaving(*exchange, cancellation);
    return caller(*exchange);
  } catch (const std::exception& error) {
    return {
        .status = 0, .retry_after = {}, .body = fmt::format("{}: {}", peer.server, error.what())};
  }

  const Peer peer;
  WatchedFile token;
  http::client::http_client client;
  std::stop_source given_up;
  const std::shared_ptr<pplx::scheduler_interface> at_once = std::make_shared<AtOnce>();
};

HttpTransport::HttpTransport(const Config& config, const Warn& warn) {
  if (const auto problem = problem_of_server(config.server, /*allow_http=*/true))
    throw Error(ExitCode::kBadInput, fmt::format("[kube] {}: {}", config.server, *problem));
  connections_ = std::make_unique<Connections>(config, warn);
}

HttpTransport::~HttpTransport() = default;

Response HttpTransport::send(const Request& request) {
  return connections_->run(request, [&](Exchange& exchange) {
    return exchange.wait(request.deadline, connections_->given_up.get_token());
  });
}

Response HttpTransport::stream(const Request& request, std::stop_token stop,
                               const std::function<bool(std::string_view)>& on_data) {
  return connections_->run(request, [&](Exchange& exchange) {
    return exchange.stream(request.deadline, stop, on_data);
  });
}

void HttpTransport::give_up() { connections_->given_up.request_stop(); }

void limit_http_threads(int count) {
  // At exit the library's threads end after OpenSSL would have torn itself down beneath them.
  OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
  crossplat::threadpool::initialize_with_threads(static_cast<std::size_t>(count));
  pplx::set_ambient_scheduler(std::make_shared<AtOnce>());
}

}  // namespace coxswain::kube
