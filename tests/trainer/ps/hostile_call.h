#pragma once

#include <memory>
#include <string>

#include <openssl/ssl.h>

#include "trainer/net/network.h"
#include "trainer/net/psk.h"

namespace coxswain::ps {

// Resource. How one that calls speaks TLS.
class Tls {
 public:
  // By certificates.
  Tls(int version, bool has_certificate);
  // By a key.
  Tls(const std::string& job, const std::string& secret);
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;
  SSL_CTX* context() const { return context_.get(); }

 private:
  const net::PresharedKey key_;
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
};

// Resource. One call of a server, by whoever; everything here blocks, for 20 s at most. What fails
// does nothing: the server has hung up.
class Call {
 public:
  explicit Call(const net::Address& address);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  void speak_tls(const Tls& tls);  // from now on
  void say(const std::string& bytes);
  void drip(const std::string& bytes);  // slowly
  net::FrameKind hear();                // a frame
  void join(const Tls& tls, const net::Hello& hello);
  void hear_all();  // until the server hangs up

  bool was_welcome() const { return was_welcome_; }
  bool was_endless() const { return was_endless_; }  // the server has not hung up

 private:
  bool receive(void* to, std::size_t bytes);

  int socket_;
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_;
  bool was_welcome_ = false;
  bool was_endless_ = false;
};

std::string hello_frame(const std::string& json);
std::string ready_frame();
// All that a process of the job says until it has joined.
std::string recorded(const net::Address& address, const Tls& tls, const net::Hello& hello);

}  // namespace coxswain::ps
