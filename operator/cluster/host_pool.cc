#include "operator/cluster/host_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "trainer/contract/error.h"
#include "trainer/contract/worker/question.h"
#include "trainer/contract/worker/ssh_command.h"

namespace coxswain::cluster {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

constexpr seconds kAskAgain{5};
constexpr seconds kHostAnswersWithin{30};
constexpr seconds kCarryWithin{600};
constexpr milliseconds kLongestRest{60'000};
constexpr int kLacksProgram = 77;

// Where the program is on a host, for sh there.
std::string place_of(const Package& package) { return "$HOME/.cache/coxswain/" + package.hash; }

std::string check_script(const Package& package) {
  return fmt::format(
      "cd {0} 2>/dev/null && [ -f complete ] || exit {1}; "
      "LD_LIBRARY_PATH=$PWD/lib ./coxswain-trainer hosted --help >/dev/null && pwd -P",
      place_of(package), kLacksProgram);
}

// Whoever else carries it at the same time does no harm.
std::string carry_script(const Package& package) {
  return fmt::format(
      "umask 077; d={}; t=$d.$$; mkdir -p $t && tar -xf - -C $t && touch $t/complete && "
      "{{ mv -T $t $d 2>/dev/null || {{ rm -rf $t; [ -f $d/complete ]; }}; }}",
      place_of(package));
}

// By what name others find it: what ssh's configuration makes of it.
std::string address_of(const std::string& host) {
  contract::Question question({"ssh", "-G", host}, {}, kHostAnswersWithin);
  if (question.wait() == 0) {
    std::istringstream in(question.heard());
    for (std::string line; std::getline(in, line);)
      if (line.starts_with("hostname ")) return line.substr(9);
  }
  return host.substr(host.find('@') + 1);
}

}  // namespace

void check_hosts(const job::TrainingJob& job, const std::vector<HostSlots>& hosts) {
  const auto refuse = [](const std::string& why) {
    throw Error(ExitCode::kBadInput, "[hosts] " + why);
  };
  if (!job.spec.training) refuse("the job has no `training`: other programs need a cluster");
  const int workers = job.spec.worker.replicas, slots = job::slots_per_worker(job.spec);
  const auto fit = place_workers(hosts, std::vector<bool>(hosts.size(), true), workers, slots);
  if (std::ssize(fit) < workers)
    refuse(fmt::format("{} workers of {} slots each don't fit: the hosts have places for {}",
                       workers, slots, fit.size()));
  for (const HostSlots& host : hosts) {
    const std::string name = host.name.substr(host.name.find('@') + 1);
    if (hosts.size() > 1 && (name == "localhost" || name.starts_with("127.")))
      refuse(
          fmt::format("{}: the other hosts would look for it on themselves; write the name that "
                      "they know it by",
                      host.name));
  }
}

std::vector<int> place_workers(const std::vector<HostSlots>& hosts,
                               const std::vector<bool>& answers, int workers, int slots) {
  std::vector<int> places;
  for (std::size_t i = 0; i < hosts.size(); ++i)
    for (int left = hosts[i].slots; answers[i] && left >= slots && std::ssize(places) < workers;
         left -= slots)
      places.push_back(static_cast<int>(i));
  return places;
}

class HostPool::Host {
 public:
  Host(std::string name, const Package& package, const Tell& tell)
      : name_(std::move(name)), address_(address_of(name_)), package_(package), tell_(tell) {
    ask();
  }

  const std::string& name() const { return name_; }
  const std::string& address() const { return address_; }
  const std::string& directory() const { return directory_; }
  const std::string& words() const { return words_; }
  bool answers() const { return answers_; }
  bool was_asked() const { return answers_ || !words_.empty(); }
  int descriptor() const { return question_ ? question_->descriptor() : -1; }

  std::optional<Clock::time_point> look_again() const {
    if (answers_) return std::nullopt;
    return question_ ? question_->give_up() : again_;
  }

  void look() {
    if (!question_ && !answers_ && Clock::now() >= again_) ask();
    if (!question_) return;
    const auto code = question_->look();
    if (!code) return;
    const std::string words = question_->last_words();
    question_.reset();
    if (*code == kLacksProgram && !carries_) return carry();
    if (*code == 0 && carries_) return ask();
    if (*code != 0) return put_off(words);
    directory_ = words;
    if (!directory_.starts_with('/')) return put_off("its shell says " + directory_);
    answers_ = true;
    words_.clear();
  }

  void put_off(const std::string& why) {
    answers_ = false;
    words_ = why.empty() ? "no answer" : why;
    again_ = Clock::now() + kAskAgain;
  }

 private:
  void ask() {
    carries_ = false;
    question_.emplace(contract::ssh_command(name_, check_script(package_)),
                      std::map<std::string, std::string>(), kHostAnswersWithin);
  }

  void carry() {
    carries_ = true;
    tell_(fmt::format("carrying coxswain-trainer ({} MB) to {}", package_.bytes >> 20, name_));
    std::vector<std::string> command = {"sh", "-c", "tar -chf - -C \"$0\" . | \"$@\"",
                                        package_.folder};
    const auto ssh = contract::ssh_command(name_, carry_script(package_));
    command.insert(command.end(), ssh.begin(), ssh.end());
    question_.emplace(std::move(command), std::map<std::string, std::string>(), kCarryWithin);
  }

  std::string name_;
  std::string address_;
  Package package_;
  Tell tell_;
  std::optional<contract::Question> question_;
  bool carries_ = false;  // what the question is for
  bool answers_ = false;
  std::string directory_;
  std::string words_;  // why it does not answer
  Clock::time_point again_{};
};

HostPool::HostPool(std::vector<HostSlots> hosts, const Package& package, const Tell& tell)
    : slots_(std::move(hosts)) {
  hosts_.reserve(slots_.size());
  for (const HostSlots& host : slots_) hosts_.emplace_back(host.name, package, tell);
}

HostPool::~HostPool() = default;

std::vector<bool> HostPool::answering() const {
  std::vector<bool> all;
  for (const Host& host : hosts_) all.push_back(host.answers());
  return all;
}

std::string HostPool::address(int host) const {
  return hosts_[static_cast<std::size_t>(host)].address();
}

std::string HostPool::directory(int host) const {
  return hosts_[static_cast<std::size_t>(host)].directory();
}

bool HostPool::wait_for_all(contract::SignalQueue& signals) {
  while (!std::ranges::all_of(hosts_, &Host::was_asked)) {
    std::vector<int> all = descriptors();
    all.push_back(signals.descriptor());
    contract::wait_readable(all, look_within());
    if (signals.next()) return false;
    look();
  }
  if (const std::string who = missing(); !who.empty())
    throw Error(ExitCode::kPeersMissing, fmt::format("[hosts] no ranks can start on {}", who));
  return true;
}

void HostPool::look() {
  for (Host& host : hosts_) host.look();
}

void HostPool::lost(const std::string& name) {
  const auto host = std::ranges::find(hosts_, name, &Host::name);
  if (host != hosts_.end()) host->put_off("its ssh ended");
}

std::string HostPool::missing() const {
  std::string text;
  for (const Host& host : hosts_)
    if (!host.answers())
      text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", host.name(), host.words());
  return text;
}

std::vector<int> HostPool::descriptors() const {
  std::vector<int> all;
  for (const Host& host : hosts_) all.push_back(host.descriptor());
  return all;
}

milliseconds HostPool::look_within() const {
  auto next = Clock::now() + kLongestRest;
  for (const Host& host : hosts_)
    if (const auto again = host.look_again()) next = std::min(next, *again);
  return std::max(milliseconds(0), std::chrono::ceil<milliseconds>(next - Clock::now()));
}

}  // namespace coxswain::cluster
