#include <cstdlib>

#include "operator/cluster/pod.h"

// Any JSON is a pod of a worker or none, and nothing is thrown.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  using namespace coxswain;
  const job::Json pod = job::Json::parse(input, input + size, nullptr, /*allow_exceptions=*/false);
  if (pod.is_discarded()) return 0;
  const auto worker = cluster::worker_of(pod);
  if (worker && (worker->id.index < 0 || worker->id.attempt < 0)) std::abort();
  if (worker && worker->exit_code && worker->phase == job::WorkerPhase::kRunning) std::abort();
  cluster::job_key_of(pod);
  return 0;
}
