#include "trainer/contract/worker/announced_ranks.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "trainer/contract/worker/run_files.h"

namespace coxswain::contract {

using Clock = std::chrono::steady_clock;

AnnouncedRanks::AnnouncedRanks(std::vector<std::filesystem::path> worker_directories, int count)
    : worker_directories_(std::move(worker_directories)), count_(count) {}

void AnnouncedRanks::look() {
  if (complete()) return;
  for (const auto& directory : worker_directories_) {
    for (const auto& announced : read_announced(directory)) {
      if (std::ranges::find(ranks_, announced.rank, &Rank::rank) != ranks_.end()) continue;
      ranks_.push_back({.rank = announced.rank,
                        .worker_directory = directory,
                        .process = watch_process(announced.pid),
                        .sent = {}});
    }
  }
}

bool AnnouncedRanks::all_ended() const {
  return std::ranges::all_of(ranks_, [](const Rank& rank) { return has_ended(rank.process); });
}

std::vector<int> AnnouncedRanks::descriptors() const {
  std::vector<int> running;
  for (const Rank& rank : ranks_) {
    if (!has_ended(rank.process)) running.push_back(rank.process.get());
  }
  return running;
}

void AnnouncedRanks::signal_once(int number) {
  for (Rank& rank : ranks_) {
    if (rank.sent.insert(number).second) signal_process(rank.process, number);
  }
}

void AnnouncedRanks::kill() {
  for (const Rank& rank : ranks_) signal_process(rank.process, SIGKILL);
}

void AnnouncedRanks::wait_or_kill(std::chrono::milliseconds patience) {
  look();
  const auto deadline = Clock::now() + patience;
  while (Clock::now() < deadline) {
    const std::vector<int> running = descriptors();
    if (running.empty()) return;
    wait_readable(running, std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()));
  }
  kill();
}

}  // namespace coxswain::contract
