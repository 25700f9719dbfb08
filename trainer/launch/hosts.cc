#include "trainer/launch/hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>

#include "trainer/contract/error.h"
#include "trainer/contract/worker/question.h"
#include "trainer/launch/ssh_files.h"

namespace coxswain::launch {

namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostAtOnce = 32;
constexpr milliseconds kTryFor{5'000};  // a name that nobody resolves takes its time
constexpr milliseconds kFirstPause{100};
constexpr milliseconds kLongestPause{1'000};
constexpr int kMostTold = 4;

// One host, asked until it answers.
class Host {
 public:
  Host(std::string name, const std::filesystem::path& ssh_config, Clock::time_point first)
      : name_(std::move(name)), ssh_config_(ssh_config), again_(first) {}

  const std::string& name() const { return name_; }
  const std::string& words() const { return words_; }
  bool answers() const { return answers_; }
  bool has_no_address() const {
    return !answers_ && words_.find("Could not resolve hostname") != std::string::npos;
  }
  bool asking() const { return question_.has_value(); }
  bool is_due(Clock::time_point now) const { return !answers_ && !asking() && now >= again_; }

  void ask() {
    question_.emplace(std::vector<std::string>{"ssh", "-F", ssh_config_, "-o", "ConnectTimeout=1",
                                               name_, kAreYouThere},
                      std::map<std::string, std::string>(), kTryFor);
  }

  int descriptor() const { return question_->descriptor(); }

  void look(Clock::time_point now) {
    const auto code = question_->look();
    if (!code) return;
    words_ = question_->last_words();
    if (words_.empty()) words_ = "no answer";
    question_.reset();
    answers_ = *code == 0;
    again_ = now + pause_;
    pause_ = std::min(pause_ * 2, kLongestPause);
  }

 private:
  std::string name_;
  std::filesystem::path ssh_config_;
  std::optional<contract::Question> question_;
  std::string words_ = "not asked yet";
  Clock::time_point again_;
  milliseconds pause_ = kFirstPause;
  bool answers_ = false;
};

std::string missing(const std::vector<Host>& hosts) {
  std::string text;
  int count = 0;
  for (const Host& host : hosts) {
    if (host.answers()) continue;
    if (++count > kMostTold) continue;
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", host.name(), host.words());
  }
  if (count > kMostTold) text += fmt::format(" and {} more", count - kMostTold);
  return text;
}

void tell_time(std::size_t hosts, Clock::duration passed) {
  const auto seconds = std::chrono::duration<double>(passed).count();
  fmt::print(stderr, "[launch] {} hosts answer after {:.1f} s\n", hosts, seconds);
}

void ask_those_due(std::vector<Host>& hosts, Clock::time_point now) {
  auto busy = static_cast<std::size_t>(std::ranges::count_if(hosts, &Host::asking));
  for (Host& host : hosts) {
    if (busy >= kMostAtOnce) return;
    if (!host.is_due(now)) continue;
    host.ask();
    ++busy;
  }
}

void wait_for_answers(const std::vector<Host>& hosts, const contract::SignalQueue& signals) {
  std::vector<int> descriptors{signals.descriptor()};
  for (const Host& host : hosts)
    if (host.asking()) descriptors.push_back(host.descriptor());
  contract::wait_readable(descriptors, kFirstPause);
}

}  // namespace

std::vector<std::string> read_hostfile(const std::filesystem::path& file, int count) {
  std::ifstream in(file);
  std::vector<std::string> hosts;
  for (std::string line; std::getline(in, line) && hosts.size() <= 2UL * count;) {
    const std::string name = line.substr(0, line.find_first_of(" \t#"));
    if (!name.empty()) hosts.push_back(name);
  }
  if (hosts.size() != static_cast<std::size_t>(count))
    throw Error(ExitCode::kBadInput, fmt::format("[launch] {} names {} hosts, not {}",
                                                 file.string(), hosts.size(), count));
  return hosts;
}

bool wait_for_hosts(const std::vector<std::string>& names, const std::filesystem::path& ssh_config,
                    const HostPatience& patience, contract::SignalQueue& signals,
                    const std::function<void()>& each_turn) {
  std::vector<Host> hosts;
  hosts.reserve(names.size());
  const auto begin = Clock::now();
  auto counted_from = begin;
  for (const std::string& name : names)
    hosts.emplace_back(name, ssh_config, begin + patience.first_after);
  auto tell = begin + patience.tell_every;
  for (;;) {
    const auto now = Clock::now();
    for (Host& host : hosts)
      if (host.asking()) host.look(now);
    if (std::ranges::all_of(hosts, &Host::answers)) {
      tell_time(hosts.size(), now - begin);
      return true;
    }
    while (const auto signal = signals.next())
      if (*signal == SIGTERM) return false;
    each_turn();
    if (std::ranges::any_of(hosts, &Host::has_no_address)) counted_from = now;
    if (now >= counted_from + patience.deadline)
      throw Error(ExitCode::kPeersMissing,
                  fmt::format("[launch] did not answer over SSH in {} s: {}",
                              patience.deadline.count() / 1000, missing(hosts)));
    if (now >= tell) {
      fmt::print(stderr, "[launch] waiting for {}\n", missing(hosts));
      tell = now + patience.tell_every;
    }
    ask_those_due(hosts, now);
    wait_for_answers(hosts, signals);
  }
}

}  // namespace coxswain::launch
