#include "trainer/report/server_endpoint.h"

#include "trainer/report/prometheus_text.h"

namespace coxswain::report {

std::string to_metrics(const ServerFigures& figures) {
  std::string text;
  gauge(text, "server_step", "Steps done.", static_cast<double>(figures.step));
  gauge(text, "server_workers", "Workers that are connected.", figures.workers);
  counter(text, "server_received_bytes_total", "From workers and other servers.",
          static_cast<double>(figures.received_bytes));
  counter(text, "server_sent_bytes_total", "To workers and other servers.",
          static_cast<double>(figures.sent_bytes));
  return text;
}

ServerEndpoint::ServerEndpoint(const std::string& address, std::uint16_t port)
    : endpoint_(address, port, [this](const std::string& path) { return answer(path); }) {}

void ServerEndpoint::set(const ServerFigures& figures) {
  const std::lock_guard lock(mutex_);
  figures_ = figures;
}

std::optional<contract::HttpResponse> ServerEndpoint::answer(const std::string& path) const {
  if (path == "/healthz") return contract::HttpResponse{.body = "ok\n"};
  if (path != "/metrics") return std::nullopt;
  const std::lock_guard lock(mutex_);
  return contract::HttpResponse{.content_type = std::string(kPrometheusType),
                                .body = to_metrics(figures_)};
}

}  // namespace coxswain::report
