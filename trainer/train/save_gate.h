#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace coxswain::train {

// Resource, thread-safe. Keeps whoever is to end the process from cutting off a save: what is being
// saved is good and agreed on by all, whatever became of a peer meanwhile.
class SaveGate {
 public:
  // While one is there, a save is under way.
  class Saving {
   public:
    explicit Saving(SaveGate& gate) : gate_(gate) {
      std::unique_lock lock(gate_.mutex_);
      gate_.over_.wait(lock, [this] { return !gate_.closed_; });
      ++gate_.saving_;
    }
    ~Saving() {
      const std::lock_guard lock(gate_.mutex_);
      if (--gate_.saving_ == 0) gate_.over_.notify_all();
    }
    Saving(const Saving&) = delete;
    Saving& operator=(const Saving&) = delete;

   private:
    SaveGate& gate_;
  };

  // Waits as below; from now on none begins: who wants to save waits for the process's end.
  bool close(std::chrono::nanoseconds limit) {
    std::unique_lock lock(mutex_);
    closed_ = true;
    return over_.wait_for(lock, limit, [this] { return saving_ == 0; });
  }

  // Waits until no save is under way; false when one still is after `limit`.
  bool wait(std::chrono::nanoseconds limit) {
    std::unique_lock lock(mutex_);
    return over_.wait_for(lock, limit, [this] { return saving_ == 0; });
  }

 private:
  std::mutex mutex_;  // guards all below
  std::condition_variable over_;
  int saving_ = 0;
  bool closed_ = false;
};

}  // namespace coxswain::train
