#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "trainer/checkpoint/writer.h"
#include "trainer/train/observer.h"
#include "trainer/train/train_options.h"

namespace coxswain::train {

// Resource of rank 0. When to save, and who is told of it.
class Saver {
 public:
  // `new_run`: what the directory holds is of other runs, and stays.
  Saver(const CheckpointOptions& options, bool new_run, Observer& observer);

  bool due(std::int64_t step) const;
  void start(std::function<checkpoint::Contents()> contents);  // at once, without waiting
  void poll();                                                 // tells of saves that ended
  void save_now(std::function<checkpoint::Contents()> contents);
  const std::string& newest() const {
    return newest_;
  }  // path of the newest one written; "" if none

 private:
  void tell(const checkpoint::SaveResult& result);

  CheckpointOptions options_;
  Observer& observer_;
  checkpoint::Writer writer_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  std::string newest_;
};

}  // namespace coxswain::train
