#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trainer/contract/worker/child_process.h"

namespace coxswain::contract {

// Resource. A command that answers, in time or not at all.
class Question {
 public:
  using Clock = std::chrono::steady_clock;

  // `environment`: added to this process's. Throws Error (65) when it can't be executed.
  Question(std::vector<std::string> command, std::map<std::string, std::string> environment,
           std::chrono::milliseconds patience);

  int descriptor() const { return child_.descriptor(); }  // readable at its end
  Clock::time_point give_up() const { return give_up_; }  // it is killed at the look() after that

  std::optional<int> look();  // its exit code, once it ended
  int wait();
  const std::string& heard() const { return heard_; }  // the last 64 KiB of what it printed
  std::string last_words() const;  // the last line of it, printable; empty: nothing

 private:
  void listen();

  Pipe output_;
  ChildProcess child_;
  Clock::time_point give_up_;
  std::string heard_;
};

}  // namespace coxswain::contract
