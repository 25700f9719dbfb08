#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "operator/controller/informer.h"
#include "operator/controller/work_queue.h"
#include "operator/kube/client.h"
#include "tests/support/scripted_kubelet/life.h"

namespace coxswain::scripted {

struct KubeletOptions {
  std::vector<std::string> namespaces;  // empty: all
  std::string label_selector;
  bool schedules = true;  // else a scheduler binds pods, to nodes of the test's
  int writers = 8;
  Life defaults;
  std::vector<Rule> rules;  // for pods without a script of their own
};

// Value. What was written.
struct Counts {
  std::uint64_t bindings = 0, statuses = 0, removals = 0, failures = 0;
};

// Resource. Schedules every pod that has no node onto nodes of its own making, and plays it as it
// is scripted. Leaves the pods of other nodes alone, unless others schedule.
class Kubelet : private controller::ObjectSink {
 public:
  Kubelet(kube::Client& client, KubeletOptions options);

  void run(std::stop_token stop);  // until asked to stop
  Counts counts() const;

 private:
  using Clock = std::chrono::steady_clock;

  struct Pod {
    Json slim;  // metadata.uid and the containers' names and images
    std::string uid, name_space, name;
    Life life;
    Stage stage = Stage::kNew;
    bool bound = false;
    Clock::time_point since = Clock::now();
    std::optional<Clock::time_point> terminating;
  };

  void begin_list() override {}
  void listed(const Json& pod) override { changed(pod); }
  void end_list(std::uint64_t) override {}
  void changed(const Json& pod) override;
  void deleted(const Json& pod) override;
  void progress(std::uint64_t) override {}

  bool is_ours(const std::string& node) const;
  Life read_life(const Json& pod) const;
  std::optional<Pod> find(const std::string& key) const;
  void enter(const std::string& key, const std::string& uid, Stage stage);
  void write(std::stop_token stop);
  void play(const std::string& key);
  bool perform(const Pod& pod, Act act);
  void make_nodes();
  void keep_nodes(std::stop_token stop);

  kube::Client& client_;
  const KubeletOptions options_;
  controller::WorkQueue queue_;
  std::atomic<std::uint64_t> bindings_ = 0, statuses_ = 0, removals_ = 0, failures_ = 0;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Pod> pods_;  // guarded by mutex_
};

}  // namespace coxswain::scripted
