#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "trainer/checkpoint/writer.h"
#include "trainer/train/observer.h"
#include "trainer/train/save_gate.h"
#include "trainer/train/train_options.h"

namespace coxswain::train {

// Whether the end of an epoch is to be saved, `epochs` being complete with it: all ranks know.
bool due_by_epochs(const CheckpointOptions& options, std::int64_t epochs);

// Resource of rank 0. When to save, and who is told of it.
class Saver {
 public:
  using Now = std::function<std::chrono::steady_clock::time_point()>;

  // `new_run`: the uid of the job whose run begins; what the directory holds is of others, and
  // stays. Every save closes `gate` until it is over.
  Saver(const CheckpointOptions& options, const std::optional<std::string>& new_run, SaveGate& gate,
        Observer& observer, Now now);

  // `epochs`: how many are complete with this step; 0: it ends none.
  bool due(std::int64_t step, std::int64_t epochs) const;
  bool due_by_time() const;
  void start(std::function<checkpoint::Contents()> contents);  // at once, without waiting
  void wait();  // for a save under way: the next start is not skipped
  void poll();  // tells of saves that ended
  void save_now(std::function<checkpoint::Contents()> contents);
  const std::string& newest() const {
    return newest_;
  }  // path of the newest one written; "" if none

 private:
  std::function<checkpoint::Contents()> guarded(std::function<checkpoint::Contents()> contents);
  void tell(const checkpoint::SaveResult& result);

  CheckpointOptions options_;
  SaveGate& gate_;
  Observer& observer_;
  checkpoint::Writer writer_;
  Now now_;
  std::chrono::steady_clock::time_point last_ = now_();
  std::string newest_;
};

}  // namespace coxswain::train
