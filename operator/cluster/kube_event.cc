#include "operator/cluster/kube_event.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "trainer/contract/printable.h"

namespace coxswain::cluster {

namespace {

constexpr std::size_t kMostNoteBytes = 1024;  // the API server's limit
constexpr const char* kController = "coxswain.dev/operator";

}  // namespace

job::Json event_object(const job::TrainingJob& job, const job::Event& event,
                       const std::string& reporter, std::chrono::system_clock::time_point now) {
  const auto since_epoch = now.time_since_epoch();
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(since_epoch);
  const auto nanos = std::chrono::duration_cast<std::chrono::nanoseconds>(since_epoch).count();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(now);
  return {
      {"apiVersion", "events.k8s.io/v1"},
      {"kind", "Event"},
      {"metadata",
       {{"name", fmt::format("{}.{:x}", job.metadata.name, nanos)},
        {"namespace", job.metadata.name_space}}},
      {"eventTime", fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:06}Z", fmt::gmtime(seconds),
                                micros.count() % 1'000'000)},
      {"reportingController", kController},
      {"reportingInstance", shortened(reporter.empty() ? "coxswain" : reporter, 128)},
      {"action", event.reason},
      {"reason", event.reason},
      {"regarding",
       {{"apiVersion", job::kApiVersion},
        {"kind", job::kKind},
        {"name", job.metadata.name},
        {"namespace", job.metadata.name_space},
        {"uid", job.metadata.uid}}},
      {"note", shortened(event.message, kMostNoteBytes)},
      {"type", event.warning ? "Warning" : "Normal"},
  };
}

}  // namespace coxswain::cluster
