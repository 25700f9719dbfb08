#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "operator/inspect/sighting.h"
#include "operator/kube/config.h"

namespace coxswain {

// Looks at one job, wherever it runs. Changes nothing. Thread-safe.
class JobSight {
 public:
  // `who`: "worker-3", or "rank-3" where each rank's output is known apart.
  using OnLine = std::function<void(const std::string& who, std::string_view line)>;

  virtual ~JobSight() = default;

  virtual std::string place() const = 0;  // "namespace default", "/tmp/coxswain-x on this machine"

  // As it is now; nullopt: there is no such job (any more). Throws Error when it can't be told.
  virtual std::optional<inspect::Sighting> look(bool with_events) = 0;

  // What a worker has printed; with `follow` until it has ended. Throws Error.
  virtual void read_log(const job::Worker& worker, std::optional<int> rank, bool follow,
                        std::stop_token stop, const OnLine& on_line) = 0;

  // What rank 0 of the recorded attempt answers to GET `path`; nullopt: nothing.
  virtual std::optional<std::string> ask_rank_zero(const inspect::Sighting& seen,
                                                   const std::string& path) = 0;
};

// Value. Where to look, as kubectl takes it, or on this machine.
struct SightOptions {
  std::string job;
  std::string kubeconfig;
  kube::ConfigRules rules;  // with the context
  std::string name_space;   // empty: the context's
  bool local = false;       // a run of this machine: the newest of that name
  std::string run_dir;      // or the one in this directory
};

std::unique_ptr<JobSight> make_cluster_sight(const SightOptions& options);
std::unique_ptr<JobSight> make_local_sight(const SightOptions& options);

}  // namespace coxswain
