#include "operator/kube/http_transport.h"

#include <cpprest/http_client.h>
#include <fmt/format.h>
#include <openssl/crypto.h>
#include <pplx/threadpool.h>

#include <algorithm>
#include <boost/asio/ssl.hpp>
#include <charconv>
#include <mutex>
#include <utility>

#include "operator/kube/credentials.h"
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

std::string host_of(const web::uri& uri) {
  const std::string& host = uri.host();
  return host.starts_with('[') ? host.substr(1, host.size() - 2) : host;
}

// The library makes neither a Host header nor a server name of such an address that could be read.
bool is_ipv6(const std::string& server) { return web::uri(server).host().starts_with('['); }

// "host:port" as the server's address has it.
std::string authority_of(const std::string& server) {
  const std::size_t begin = server.find("://") + 3;
  return server.substr(begin, server.find('/', begin) - begin);
}

// Where the library connects to: it takes an IPv6 address without its brackets alone.
web::uri address_of(const std::string& server) {
  const web::uri uri(server);
  return web::uri_builder(uri).set_host(host_of(uri)).to_uri();
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
  using HttpClient = http::client::http_client;

  Connections(const Config& config, const Warn& warn)
      : peer{config.server,
             std::make_shared<TlsTrust>(config, host_of(web::uri(config.server)), warn)},
        insecure(config.insecure),
        credentials(config, warn),
        shown{"", config.client_certificate_pem, config.client_key_pem},
        client(connect(shown)) {}

  // Connections that show this certificate.
  std::shared_ptr<HttpClient> connect(const Credential& credential) const {
    const auto identity = std::make_shared<const TlsIdentity>(credential);
    http::client::http_client_config settings;
    settings.set_timeout(kLibraryTimeout);
    settings.set_max_redirects(0);
    settings.set_validate_certificates(!insecure);
    settings.set_tlsext_sni_enabled(!is_ipv6(peer.server));
    // The library keeps this as long as its connections, which refer to `trust`.
    settings.set_ssl_context_callback(
        [trust = peer.trust, identity](boost::asio::ssl::context& context) {
          trust->apply(context.native_handle());
          identity->apply(context.native_handle());
        });
    return std::make_shared<HttpClient>(address_of(peer.server), settings);
  }

  std::shared_ptr<HttpClient> client_for(const Credential& credential) {
    const std::lock_guard lock(mutex);
    const bool is_shown =
        shown.certificate_pem == credential.certificate_pem && shown.key_pem == credential.key_pem;
    if (!is_shown) {
      client = connect(credential);
      shown = credential;
    }
    return client;
  }

  http::http_request message_of(const Request& request, const std::string& token,
                                const std::shared_ptr<Exchange>& exchange) const {
    http::http_request message(method_of(request.method));
    message.set_request_uri(web::uri(request.target));
    if (is_ipv6(peer.server)) message.headers().add("Host", authority_of(peer.server));
    message.headers().add("Accept", request.accept);
    message.headers().add("User-Agent", "coxswain");
    if (!token.empty()) message.headers().add("Authorization", "Bearer " + token);
    if (!request.body.empty()) {
      message.set_body(Concurrency::streams::istream(make_body_source(request.body)),
                       request.body.size(), request.content_type);
    }
    message.set_response_stream(Concurrency::streams::ostream(make_body_sink(exchange)));
    return message;
  }

  // Sends the request and lets `caller` wait for what comes of it.
  Response run(const Request& request, const std::function<Response(Exchange&)>& caller) try {
    const Credential credential = credentials.now();
    Response response = run_as(credential, request, caller);
    if (response.status == 401 && credentials.renew(credential))
      response = run_as(credentials.now(), request, caller);
    return response;
  } catch (const std::exception& error) {
    return {
        .status = 0, .retry_after = {}, .body = fmt::format("{}: {}", peer.server, error.what())};
  }

  Response run_as(const Credential& credential, const Request& request,
                  const std::function<Response(Exchange&)>& caller) {
    const auto exchange = std::make_shared<Exchange>();
    const pplx::cancellation_token_source cancellation;
    const pplx::task_options options(at_once);
    client_for(credential)
        ->request(message_of(request, credential.token, exchange), cancellation.get_token())
        .then(
            [whom = peer, exchange, options](const pplx::task<http::http_response>& answer) {
              follow(answer, whom, exchange, options);
            },
            options);
    const Leaving leaving(*exchange, cancellation);
    return caller(*exchange);
  }

  const Peer peer;
  const bool insecure;
  Credentials credentials;
  std::mutex mutex;
  // Guarded by mutex:
  Credential shown;  // its certificate, to those who are connected
  std::shared_ptr<HttpClient> client;
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
