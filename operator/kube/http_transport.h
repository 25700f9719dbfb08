#pragma once

#include <functional>
#include <memory>
#include <string>

#include "operator/kube/config.h"
#include "operator/kube/transport.h"

namespace coxswain::kube {

// Resource. HTTPS over kept-alive connections, as many as there are calls at once. The one place
// that knows the HTTP library. Who we are is kept up to date (credentials.h): after a 401 the same
// request goes out once more if there is a new credential, and a new certificate makes new
// connections. Redirects are not followed, so a token never goes to another host. Throws Error in
// the constructor for a configuration that can't work.
class HttpTransport : public Transport {
 public:
  // What goes wrong with a file that is read anew, in a line for the log.
  using Warn = std::function<void(const std::string& message)>;

  explicit HttpTransport(
      const Config& config, const Warn& warn = [](const std::string&) {});
  ~HttpTransport() override;

  Response send(const Request& request) override;
  Response stream(const Request& request, std::stop_token stop,
                  const std::function<bool(std::string_view)>& on_data) override;

  // From now on no answer is waited for: send() returns at once, those under way too. For a program
  // that ends while the server is silent. Thread-safe.
  void give_up();

 private:
  struct Connections;
  std::unique_ptr<Connections> connections_;
};

// The library's own threads, which must be counted before its first use and that of OpenSSL: call
// once, first thing in main. One keeps eight callers busy, and leaves no two threads at one socket
// when a request is given up.
void limit_http_threads(int count);

}  // namespace coxswain::kube
