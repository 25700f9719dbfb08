#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "trainer/contract/worker/http_endpoint.h"
#include "trainer/contract/worker/progress.h"
#include "trainer/report/rank_table.h"
#include "trainer/train/observer.h"

namespace coxswain::report {

// Prometheus text (exposition format 0.0.4) of the latest progress: coxswain_training_loss and so
// on.
std::string to_metrics(const contract::ProgressDocument& document);

struct ProgressEndpointOptions {
  std::string address = "::";  // every one
  std::uint16_t port = 9400;   // 0: a free one
  std::function<std::chrono::system_clock::time_point()> now = std::chrono::system_clock::now;
};

// Resource. Keeps the latest progress of the run and serves it over HTTP: /progress (JSON),
// /metrics (Prometheus), /ranks (JSON, in pages) and /healthz ("ok"). Throws Error (70) when the
// port can't be had.
class ProgressEndpoint : public train::Observer {
 public:
  explicit ProgressEndpoint(ProgressEndpointOptions options);

  std::uint16_t port() const { return endpoint_.port(); }
  contract::ProgressDocument latest() const;  // also for the termination message

  void started(const train::RunInfo& info) override;
  void stepped(const train::StepReport& report) override;
  void told(const backend::RankFigures& figures) override;
  void finished_epoch(const train::EpochReport& report) override;
  void saved(const train::CheckpointReport& report) override;
  void warned(const std::string& message) override;
  void finished(const train::Summary& summary) override;

 private:
  std::optional<contract::HttpResponse> answer(const std::string& path) const;
  // With mutex_ held. An efficiency that is not known yet leaves the last one.
  void set_pace(double samples_per_second, std::optional<double> scaling_efficiency,
                std::optional<double> one_rank_efficiency);

  ProgressEndpointOptions options_;
  mutable std::mutex mutex_;
  contract::ProgressDocument document_;  // guarded by mutex_
  RankTable ranks_;                      // guarded by mutex_
  bool evaluated_ = false;               // guarded by mutex_: accuracy is the test set's
  bool tells_top5_ = false;              // guarded by mutex_
  contract::HttpEndpoint endpoint_;      // last: its thread reads the members above
};

}  // namespace coxswain::report
