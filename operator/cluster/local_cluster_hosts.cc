#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "operator/cluster/local_cluster.h"
#include "operator/job/roles.h"
#include "trainer/contract/worker/run_files.h"

// Which host each process of a run is on.
namespace coxswain::cluster {

std::string LocalCluster::hostfile(const std::vector<std::string>& names) const {
  std::string text;
  for (const std::string& name : names)
    text += fmt::format("{} slots={}\n", name, job::slots_per_worker(job_.spec));
  return text;
}

std::string LocalCluster::server_addresses() const {
  std::vector<std::string> places;
  for (int i = 0; i < job::traits_of(job::Role::kServer).size(job_); ++i) {
    const job::WorkerId id{job::Role::kServer, i, job_.status.attempt, 0};
    std::string name = options_.hosts ? options_.hosts->address(place_of(id)) : "127.0.0.1";
    if (name.find(':') != std::string::npos) name = "[" + name + "]";
    places.push_back(fmt::format("{}:{}", name, first_port_ + i));
  }
  return fmt::format("{}", fmt::join(places, ","));
}

// `worker --launcher env -- CMD` of this machine, with its ranks on a host, where the program lies
// elsewhere. A server is the one rank of its worker.
void LocalCluster::add_host(contract::ProcessOptions& process, bool is_worker, int place) const {
  const std::string& name = options_.hosts->hosts()[static_cast<std::size_t>(place)].name;
  std::vector<std::string>& command = process.command;
  if (!is_worker) {
    command.insert(command.begin(), {options_.trainer, "worker", "--launcher", "env", "--"});
    process.environment["COXSWAIN_SLOTS"] = "1";
    process.listens = true;
  }
  std::vector<std::string> flags = {"--host=" + name,
                                    "--host-directory=" + options_.hosts->directory(place)};
  if (!wrote_on_.empty() && wrote_on_ != name) flags.push_back("--wrote-on=" + wrote_on_);
  const auto ranks = command.insert(std::ranges::find(command, "--"), flags.begin(), flags.end());
  std::replace(ranks, command.end(), options_.trainer.string(), std::string("coxswain-trainer"));
}

void LocalCluster::look_at_hosts() {
  if (!options_.hosts) return;
  options_.hosts->look();
  start_those_who_wait();
}

std::vector<int> LocalCluster::places() const {
  if (!options_.hosts) return {};
  return place_workers(options_.hosts->hosts(), options_.hosts->answering(), job_.status.workers,
                       job::slots_per_worker(job_.spec));
}

// Servers are beside the workers, in turn.
int LocalCluster::place_of(const job::WorkerId& id) const {
  return placed_[static_cast<std::size_t>(id.index) % placed_.size()];
}

bool LocalCluster::has_place(const job::WorkerId& id) const {
  if (placed_attempt_ == id.attempt)
    return options_.hosts->answering()[static_cast<std::size_t>(place_of(id))];
  const int last_needed = id.role == job::Role::kWorker ? id.index : job_.status.workers - 1;
  return last_needed < std::ssize(places());
}

// All of a gang at once, or none. Who is made anew beside the others comes where they look for it.
void LocalCluster::start_those_who_wait() {
  const auto is_old = [&](const job::WorkerId& id) { return id.attempt != job_.status.attempt; };
  if (waiting_.empty() || std::ranges::any_of(waiting_, is_old)) return;
  if (placed_attempt_ != job_.status.attempt) {
    const std::vector<int> all = places();
    if (std::ssize(all) < job_.status.workers) return;
    placed_ = all;
    placed_attempt_ = job_.status.attempt;
    std::vector<std::string> names;
    for (const int place : all) names.push_back(options_.hosts->address(place));
    contract::write_whole_file(paths(job_.status.attempt).hostfile, hostfile(names));
  }
  for (const job::WorkerId& id : std::exchange(waiting_, {})) {
    if (has_place(id))
      start(job_, id, place_of(id));
    else
      waiting_.push_back(id);
  }
  if (waiting_.empty()) waiting_since_.reset();
}

job::Worker LocalCluster::waiting(const job::WorkerId& id) const {
  job::Worker seen;
  seen.id = id;
  seen.uid = uid_of(id);
  seen.scheduled = has_place(id);
  if (!seen.scheduled) {
    seen.reason = "Unschedulable";
    seen.message = "waits for " + options_.hosts->missing();
  }
  return seen;
}

std::string LocalCluster::missing_hosts() const {
  const bool waits = waiting_since_ && !waiting_.empty();
  if (!waits || LocalWorker::Clock::now() < *waiting_since_ + job_.spec.run_policy.startup_deadline)
    return "";
  return options_.hosts->missing();
}

}  // namespace coxswain::cluster
