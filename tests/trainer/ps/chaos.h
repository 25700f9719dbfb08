#pragma once

#include <fmt/format.h>

#include <map>
#include <optional>
#include <random>
#include <string>

#include "tests/trainer/ps/simulated_links.h"

// What befalls the processes of a job by chance, second by second.
namespace coxswain::ps {

inline constexpr int kComesBack = 6;  // seconds, until another is there in its place

// Value.
struct Fault {
  enum class Kind { kDies, kStops, kIsCutOff };
  Kind kind = Kind::kDies;
  bool of_server = false;
  int index = 0;
  int seconds = 0;  // unless it dies
  int after = 0;    // so many messages of its second
};

// One fault every so many seconds.
class Faults {
 public:
  Faults(unsigned seed, int every, bool servers_die, int workers, int servers)
      : random_(seed),
        every_(every),
        servers_die_(servers_die),
        workers_(workers),
        servers_(servers) {}

  std::optional<Fault> at(int second) {
    if (every_ == 0 || second % every_ != every_ / 2) return std::nullopt;
    Fault fault;
    fault.of_server = draw(2) == 0;
    fault.kind = static_cast<Fault::Kind>(draw(3));
    if (fault.of_server && fault.kind == Fault::Kind::kDies && !servers_die_)
      fault.kind = Fault::Kind::kStops;
    fault.index = draw(fault.of_server ? servers_ : workers_);
    fault.seconds = 1 + draw(20);
    fault.after = draw(600);
    return fault;
  }

 private:
  int draw(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }

  std::mt19937 random_;
  const int every_;
  const bool servers_die_;
  const int workers_, servers_;
};

// Those that are stopped or cut off, by address.
class Frozen {
 public:
  void add(SimulatedNetwork& network, const std::string& address, const Fault& fault, int now) {
    network.freeze(address);
    ends_[address] = {now + fault.seconds, fault.kind == Fault::Kind::kStops};
  }
  void thaw(SimulatedNetwork& network, int now) {
    std::erase_if(ends_, [&](const auto& one) {
      if (one.second.until > now) return false;
      network.thaw(one.first);
      return true;
    });
  }
  bool is_any(const std::string& prefix) const {
    const auto found = ends_.lower_bound(prefix);
    return found != ends_.end() && found->first.starts_with(prefix);
  }
  bool is_stopped(const std::string& address) const {
    const auto found = ends_.find(address);
    return found != ends_.end() && found->second.is_stopped;
  }

 private:
  struct End {
    int until = 0;
    bool is_stopped = false;
  };
  std::map<std::string, End> ends_;
};

// Value. What comes of a run, beside one that nothing befalls, which makes a step a second.
struct Goodput {
  double of_all = 0;   // seconds
  double of_left = 0;  // but for those in which a server was stopped or cut off: nobody trains then

  std::string text() const {
    return fmt::format("{:.3f}, {:.3f} of what was left", of_all, of_left);
  }
};

// Until nothing is under way and nobody has anything to do. False: there is no end of it.
template <class Act>
bool settle(SimulatedNetwork& network, Act act) {
  int quiet = 0;
  for (int round = 0; quiet < 2; ++round) {
    if (round == 1000) return false;
    int moved = 0;
    while (moved < 10'000 && network.happen()) ++moved;
    act();
    quiet = moved > 0 ? 0 : quiet + 1;
  }
  return true;
}

}  // namespace coxswain::ps
