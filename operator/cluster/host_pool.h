#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "operator/cluster/host_package.h"
#include "operator/job/training_job.h"
#include "trainer/contract/worker/child_process.h"

// Machines that the user's ssh reaches, as nodes of a job.
namespace coxswain::cluster {

struct HostSlots {
  std::string name;  // as ssh knows it, "user@h1" or a name of ~/.ssh/config
  int slots = 1;     // ranks that it takes
  bool operator==(const HostSlots&) const = default;
};

// Throws Error(65), saying why the job can't run on those hosts: it is no job of ours, too
// few slots, a name that the others would look for on themselves.
void check_hosts(const job::TrainingJob& job, const std::vector<HostSlots>& hosts);

// For so many workers of so many slots the host of each, in order, filling one after the other; as
// far as those that answer reach. PURE.
std::vector<int> place_workers(const std::vector<HostSlots>& hosts,
                               const std::vector<bool>& answers, int workers, int slots);

// Resource. The hosts of a run: each is asked until it answers and has the program. For one thread.
class HostPool {
 public:
  using Tell = std::function<void(const std::string& line)>;

  // Asks all at once. `tell`: of what takes a while, a line each.
  HostPool(std::vector<HostSlots> hosts, const Package& package, const Tell& tell);
  ~HostPool();

  const std::vector<HostSlots>& hosts() const { return slots_; }
  std::vector<bool> answering() const;
  std::string address(int host) const;    // that the others know it by
  std::string directory(int host) const;  // of the program there

  // Waits until all answer. False: a signal came first. Throws Error(69) naming those that don't
  // and why, once each was asked.
  bool wait_for_all(contract::SignalQueue& signals);

  void look();                         // what the hosts said meanwhile
  void lost(const std::string& host);  // it is asked again until it answers
  std::string missing() const;         // "h2 (Connection refused)"; empty: none

  std::vector<int> descriptors() const;
  std::chrono::milliseconds look_within() const;

 private:
  class Host;
  std::vector<HostSlots> slots_;
  std::vector<Host> hosts_;
};

}  // namespace coxswain::cluster
