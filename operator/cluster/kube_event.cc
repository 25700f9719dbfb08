#include "operator/cluster/kube_event.h"

#include <fmt/format.h>

#include "operator/cluster/pod.h"
#include "trainer/contract/printable.h"
#include "trainer/contract/rfc3339.h"

namespace coxswain::cluster {

namespace {

constexpr std::size_t kMostNoteBytes = 1024;  // the API server's limit
constexpr const char* kController = "coxswain.dev/operator";

}  // namespace

job::Json event_object(const job::TrainingJob& job, const job::Event& event, int attempt,
                       const std::string& reporter, std::chrono::system_clock::time_point now) {
  const auto since_epoch = now.time_since_epoch();
  const auto nanos = std::chrono::duration_cast<std::chrono::nanoseconds>(since_epoch).count();
  return {
      {"apiVersion", "events.k8s.io/v1"},
      {"kind", "Event"},
      {"metadata",
       {{"name", fmt::format("{}.{:x}", job.metadata.name, nanos)},
        {"namespace", job.metadata.name_space},
        {"annotations", {{kAttemptLabel, std::to_string(attempt)}}}}},
      {"eventTime", to_rfc3339(now, 6)},
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
