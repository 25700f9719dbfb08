#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace coxswain::controller {

// Value. The keys of a work queue and where each stands. Reads no clock.
//
// A key is idle, kDue (waits for a worker), kWorking (a worker has it) or kWorkingAgain (and it was
// added meanwhile: due after done()). Besides, it may wait for a time.
class KeySchedule {
 public:
  using Time = std::chrono::steady_clock::time_point;

  struct Item {
    std::string key;
    Time added;  // when it became due
  };

  void add(const std::string& key, Time now);
  void add_at(const std::string& key, Time when);  // the earliest of several stands
  void advance(Time now);                          // makes due what waited until now
  std::optional<Item> take();                      // the one that became due first
  void done(const std::string& key);

  std::optional<Time> next_time() const;  // when advance() will find something
  std::size_t num_due() const { return due_.size(); }

 private:
  enum class Stage { kDue, kWorking, kWorkingAgain };
  struct Place {
    Stage stage = Stage::kDue;
    Time added;  // of kDue and kWorkingAgain
  };

  std::map<std::string, Place> places_;  // of keys that are not idle
  std::deque<std::string> due_;          // keys in kDue, in the order in which they come
  std::set<std::pair<Time, std::string>> waiting_;
  std::map<std::string, Time> waits_until_;  // the same by key
};

// How long a key rests after its n-th failure in a row (from 0): 5 ms, doubled each time, at most
// 60 s, less a tenth of it at random (`random` in [0, 1)).
std::chrono::nanoseconds retry_delay(int failures, double random);

}  // namespace coxswain::controller
