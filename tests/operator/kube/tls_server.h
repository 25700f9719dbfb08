#pragma once

#include <openssl/ssl.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/operator/kube/certificate_maker.h"

namespace coxswain::test {

// Resource. An HTTPS server in the test's own process, which does what a script says, byte by byte
// if need be: a real API server is too polite.
class TlsServer {
 public:
  // Resource. One client. Reads and writes block, 5 s at most.
  class Connection {
   public:
    Connection(SSL_CTX* context, int socket);
    ~Connection();
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    bool handshake();
    // Head and body of the next request; empty: the client is gone.
    std::string read_request();
    bool write(std::string_view bytes);
    // "HTTP/1.1 <status> x" with a Content-Length.
    bool answer(int status, std::string_view body, std::string_view headers = "");
    std::string client_name() const;  // of its certificate
    // Until the client hangs up, or 5 s passed.
    void wait_for_end();

   private:
    bool fill();

    std::unique_ptr<SSL, decltype(&SSL_free)> ssl_;
    const int socket_;
    std::string buffer_;
  };
  // Runs on a thread of its own for each client; the connection is closed hard after it.
  using Script = std::function<void(Connection&)>;

  // On 127.0.0.1, or on ::1.
  TlsServer(const Identity& identity, Script script, bool ipv6 = false);
  ~TlsServer();

  std::string url() const;
  int num_connections() const { return num_connections_; }
  // From now on a client must show a certificate of this CA.
  void require_certificate(const std::string& ca_pem);

 private:
  void accept(std::stop_token stop);

  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  const Script script_;
  int listener_ = -1;
  int port_ = 0;
  const bool ipv6_;
  std::atomic<int> num_connections_{0};
  std::mutex mutex_;
  // Guarded by mutex_:
  std::vector<int> sockets_;
  std::vector<std::jthread> clients_;
  std::jthread acceptor_;
};

}  // namespace coxswain::test
