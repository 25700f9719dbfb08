#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "trainer/contract/worker/http_endpoint.h"

namespace coxswain::report {

// Value. What a parameter server does.
struct ServerFigures {
  std::int64_t step = 0;             // that are done
  int workers = 0;                   // that are connected
  std::uint64_t received_bytes = 0;  // of gradients and words
  std::uint64_t sent_bytes = 0;      // of weights and words
};

// Prometheus text: coxswain_server_step and so on.
std::string to_metrics(const ServerFigures& figures);

// Resource. Serves a parameter server's latest figures over HTTP: /metrics (Prometheus) and
// /healthz
// ("ok"). Throws Error (70) when the port can't be had.
class ServerEndpoint {
 public:
  ServerEndpoint(const std::string& address, std::uint16_t port);

  std::uint16_t port() const { return endpoint_.port(); }
  void set(const ServerFigures& figures);

 private:
  std::optional<contract::HttpResponse> answer(const std::string& path) const;

  mutable std::mutex mutex_;
  ServerFigures figures_;            // guarded by mutex_
  contract::HttpEndpoint endpoint_;  // last: its thread reads the members above
};

}  // namespace coxswain::report
