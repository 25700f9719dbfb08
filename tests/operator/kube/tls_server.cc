#include "tests/operator/kube/tls_server.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

namespace coxswain::test {

namespace {

constexpr timeval kPatience{5, 0};

std::shared_ptr<BIO> pem_reader(const std::string& text) {
  return {BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free_all};
}

std::shared_ptr<X509> read_certificate(const std::string& pem) {
  return {PEM_read_bio_X509(pem_reader(pem).get(), nullptr, nullptr, nullptr), X509_free};
}

}  // namespace

TlsServer::Connection::Connection(SSL_CTX* context, int socket)
    : ssl_(SSL_new(context), SSL_free), socket_(socket) {
  setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
  setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof kPatience);
  const int at_once = 1;
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
  SSL_set_fd(ssl_.get(), socket_);
}

TlsServer::Connection::~Connection() {
  shutdown(socket_, SHUT_RDWR);  // closed by the server, once its thread is gone
  ERR_clear_error();
}

bool TlsServer::Connection::handshake() { return SSL_accept(ssl_.get()) == 1; }

bool TlsServer::Connection::fill() {
  char piece[16384];
  const int size = SSL_read(ssl_.get(), piece, sizeof piece);
  if (size > 0) buffer_.append(piece, static_cast<std::size_t>(size));
  return size > 0;
}

std::string TlsServer::Connection::read_request() {
  std::size_t head = 0;
  while ((head = buffer_.find("\r\n\r\n")) == std::string::npos)
    if (!fill()) return "";
  const std::size_t length = buffer_.find("Content-Length:");
  const std::size_t body =
      length < head ? std::strtoul(buffer_.c_str() + length + 15, nullptr, 10) : 0;
  while (buffer_.size() < head + 4 + body)
    if (!fill()) return "";
  const std::string request = buffer_.substr(0, head + 4 + body);
  buffer_.erase(0, request.size());
  return request;
}

bool TlsServer::Connection::write(std::string_view bytes) {
  return SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size())) > 0;
}

bool TlsServer::Connection::answer(int status, std::string_view body, std::string_view headers) {
  return write("HTTP/1.1 " + std::to_string(status) +
               " x\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
               std::string(headers) + "\r\n" + std::string(body));
}

std::string TlsServer::Connection::client_name() const {
  const std::shared_ptr<X509> certificate(SSL_get1_peer_certificate(ssl_.get()), X509_free);
  if (!certificate) return "";
  char name[64] = {};
  X509_NAME_get_text_by_NID(X509_get_subject_name(certificate.get()), NID_commonName, name,
                            sizeof name);
  return name;
}

void TlsServer::Connection::wait_for_end() {
  while (fill()) buffer_.clear();
}

TlsServer::TlsServer(const Identity& identity, Script script, bool ipv6)
    : context_(SSL_CTX_new(TLS_server_method()), SSL_CTX_free),
      script_(std::move(script)),
      ipv6_(ipv6) {
  std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes without MSG_NOSIGNAL
  SSL_CTX_use_certificate(context_.get(), read_certificate(identity.certificate_pem).get());
  const std::shared_ptr<EVP_PKEY> key(
      PEM_read_bio_PrivateKey(pem_reader(identity.key_pem).get(), nullptr, nullptr, nullptr),
      EVP_PKEY_free);
  SSL_CTX_use_PrivateKey(context_.get(), key.get());
  listener_ = socket(ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in6 address{};
  auto* const ipv4 = reinterpret_cast<sockaddr_in*>(&address);  // the port lies at the same place
  socklen_t size = ipv6 ? sizeof address : sizeof *ipv4;
  if (ipv6) {
    address.sin6_family = AF_INET6;
    address.sin6_addr = in6addr_loopback;
  } else {
    ipv4->sin_family = AF_INET;
    ipv4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  }
  bind(listener_, reinterpret_cast<sockaddr*>(&address), size);
  listen(listener_, 64);
  getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin6_port);
  acceptor_ = std::jthread([this](std::stop_token stop) { accept(stop); });
}

TlsServer::~TlsServer() {
  acceptor_.request_stop();
  shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  for (const int socket : sockets_) shutdown(socket, SHUT_RDWR);
  clients_.clear();
  for (const int socket : sockets_) close(socket);
  close(listener_);
}

std::string TlsServer::url() const {
  return (ipv6_ ? "https://[::1]:" : "https://127.0.0.1:") + std::to_string(port_);
}

void TlsServer::require_certificate(const std::string& ca_pem) {
  X509_STORE_add_cert(SSL_CTX_get_cert_store(context_.get()), read_certificate(ca_pem).get());
  SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
}

void TlsServer::accept(std::stop_token stop) {
  while (!stop.stop_requested()) {
    const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) continue;
    ++num_connections_;
    const std::lock_guard lock(mutex_);
    sockets_.push_back(client);
    clients_.emplace_back([this, client] {
      Connection connection(context_.get(), client);
      if (connection.handshake()) script_(connection);
    });
  }
}

}  // namespace coxswain::test
