#include "tests/trainer/ps/hostile_call.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "tests/trainer/ps/mad_frames.h"

namespace coxswain::ps {

namespace {

constexpr timeval kLongestWait{.tv_sec = 20, .tv_usec = 0};
constexpr auto kDrip = std::chrono::milliseconds(20);

void use_certificate(SSL_CTX* context) {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = X509_new();
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
  X509_set_pubkey(certificate, key);
  X509_sign(certificate, key, EVP_sha256());
  SSL_CTX_use_certificate(context, certificate);
  SSL_CTX_use_PrivateKey(context, key);
  X509_free(certificate);
  EVP_PKEY_free(key);
}

int connect_to(const net::Address& address) {
  const int made = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_port = htons(static_cast<std::uint16_t>(address.port));
  inet_pton(AF_INET, address.host.c_str(), &place.sin_addr);
  setsockopt(made, SOL_SOCKET, SO_RCVTIMEO, &kLongestWait, sizeof kLongestWait);
  connect(made, reinterpret_cast<sockaddr*>(&place), sizeof place);
  return made;
}

}  // namespace

Tls::Tls(int version, bool has_certificate)
    : context_(SSL_CTX_new(TLS_client_method()), SSL_CTX_free) {
  SSL_CTX_set_min_proto_version(context(), version);
  SSL_CTX_set_max_proto_version(context(), version);
  if (has_certificate) use_certificate(context());
}

Tls::Tls(const std::string& job, const std::string& secret)
    : key_{"coxswain " + job, secret}, context_(SSL_CTX_new(TLS_client_method()), SSL_CTX_free) {
  net::use_preshared_key(context(), key_);
}

Call::Call(const net::Address& address) : socket_(connect_to(address)), ssl_(nullptr, SSL_free) {
  std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes to who has hung up
}

Call::~Call() { close(socket_); }

void Call::speak_tls(const Tls& tls) {
  ssl_.reset(SSL_new(tls.context()));
  SSL_set_fd(ssl_.get(), socket_);
  SSL_connect(ssl_.get());
}

void Call::say(const std::string& bytes) {
  if (ssl_)
    SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size()));
  else
    send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

void Call::drip(const std::string& bytes) {
  for (const char& byte : bytes) {
    std::this_thread::sleep_for(kDrip);
    if (send(socket_, &byte, 1, MSG_NOSIGNAL) != 1) return;
  }
}

bool Call::receive(void* to, std::size_t bytes) {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    errno = 0;
    const auto got =
        ssl_ ? SSL_read(ssl_.get(), at, static_cast<int>(bytes)) : recv(socket_, at, bytes, 0);
    if (got <= 0) {
      was_endless_ = errno == EAGAIN;
      return false;
    }
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

net::FrameKind Call::hear() {
  net::HeadBytes bytes;
  if (!receive(bytes.data(), bytes.size())) return net::FrameKind::kGoodbye;
  const net::FrameHead head = net::decode(bytes);
  std::string text(head.length, '\0');
  receive(text.data(), text.size());
  if (head.kind == net::FrameKind::kWelcome) was_welcome_ = true;
  return head.kind;
}

void Call::join(const Tls& tls, const net::Hello& hello) {
  speak_tls(tls);
  say(hello_frame(net::to_json(hello)));
  if (hear() == net::FrameKind::kWelcome) say(ready_frame());
}

void Call::hear_all() {
  if (ssl_)
    while (hear() != net::FrameKind::kGoodbye) continue;
  for (char byte = 0; !was_endless_ && !ssl_ && receive(&byte, 1);) continue;
}

std::string hello_frame(const std::string& json) {
  return bytes_of({.kind = net::FrameKind::kHello, .length = json.size()}) + json;
}

std::string ready_frame() { return bytes_of({.kind = net::FrameKind::kReady}); }

std::string recorded(const net::Address& address, const Tls& tls, const net::Hello& hello) {
  const int socket = connect_to(address);
  SSL* ssl = SSL_new(tls.context());
  BIO *from = BIO_new(BIO_s_mem()), *to = BIO_new(BIO_s_mem());
  SSL_set_bio(ssl, from, to);
  SSL_set_connect_state(ssl);
  std::string record;
  const auto exchange = [&](bool hears) {
    char bytes[8192];
    for (int got; (got = BIO_read(to, bytes, sizeof bytes)) > 0;) {
      record.append(bytes, static_cast<std::size_t>(got));
      send(socket, bytes, static_cast<std::size_t>(got), MSG_NOSIGNAL);
    }
    if (!hears) return;
    const auto got = recv(socket, bytes, sizeof bytes, 0);
    BIO_write(from, bytes, static_cast<int>(std::max<ssize_t>(0, got)));
  };
  while (SSL_do_handshake(ssl) != 1) exchange(true);
  for (const std::string& text : {hello_frame(net::to_json(hello)), ready_frame()}) {
    SSL_write(ssl, text.data(), static_cast<int>(text.size()));
    exchange(text != ready_frame());
  }
  SSL_free(ssl);
  close(socket);
  return record;
}

}  // namespace coxswain::ps
