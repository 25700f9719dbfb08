#pragma once

#include <vector>

#include "trainer/contract/worker/child_process.h"
#include "trainer/contract/worker/termination_message.h"
#include "trainer/contract/worker/worker_env.h"
#include "trainer/launch/worker.h"

namespace coxswain::launch {

// Resource. The ranks of a worker as children of this process, each under its supervisor. The first
// that fails takes the others with it.
class OwnRanks {
 public:
  // What one of them prints, where this process wants to read it.
  struct Output {
    int rank = 0;
    bool errors = false;
    contract::FileDescriptor source;  // reading never waits
  };

  // `captured`: their outputs come here; else they go where this process prints. Throws Error.
  OwnRanks(const contract::WorkerEnv& env, const WorkerOptions& options, bool captured);

  void look();                           // for those that have ended
  bool over() const;                     // as of the last look()
  std::vector<int> descriptors() const;  // each readable at its rank's end; empty: all have ended
  std::vector<Output>& outputs() { return outputs_; }

  void signal(int number);                   // SIGUSR1: save and stop; SIGTERM: leave at once
  contract::TerminationMessage end() const;  // of the worker, when all have ended

 private:
  void start(const WorkerOptions& options, int local, bool captured);

  contract::WorkerEnv env_;
  std::vector<contract::ChildProcess> ranks_;
  std::vector<Output> outputs_;
  std::vector<int> running_;
  bool one_failed_ = false;
};

}  // namespace coxswain::launch
