#include "operator/cluster/local_cluster.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <utility>

#include "operator/cluster/keys.h"
#include "operator/job/roles.h"
#include "trainer/contract/error.h"
#include "trainer/contract/worker/run_files.h"

namespace coxswain::cluster {

namespace {

using std::chrono::milliseconds;
using Clock = LocalWorker::Clock;

constexpr milliseconds kLongestWait{60'000};

job::Time now() { return std::chrono::floor<job::Seconds>(std::chrono::system_clock::now()); }

int servers_of(const job::TrainingJob& job) { return job::traits_of(job::Role::kServer).size(job); }

int schedulers_of(const job::TrainingJob& job) {
  return job::traits_of(job::Role::kScheduler).size(job);
}

// Of what listens in its workers, one port each: ranks of ours, or a program of somebody else's.
int peers_of(const job::TrainingJob& job) {
  if (job::launcher(job.spec) != job::Launcher::kEnv) return 0;
  return job.status.workers * (job.spec.training ? job::slots_per_worker(job.spec) : 1);
}

// Where the peers of TF_CONFIG are on this machine: each on a port of its own.
std::string local_tf_config(const job::TrainingJob& job, const std::string& text, int first_port) {
  const auto place = [&](job::Role role, int index) {
    const int before = role == job::Role::kWorker ? servers_of(job) + schedulers_of(job) : 0;
    return fmt::format("127.0.0.1:{}", first_port + before + index);
  };
  std::map<std::string, std::string> places;
  for (const job::WorkerId& peer : job::gang(job))
    places[job::address(job, peer.role, peer.index)] = place(peer.role, peer.index);
  job::Json config = job::Json::parse(text);
  for (job::Json& task : config.at("cluster"))
    for (job::Json& peer : task) peer = places.at(peer.get<std::string>());
  return config.dump();
}

// Those of an earlier run, or of who was here before in this attempt, would be taken for news.
void remove_leftovers(const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::remove_all(directory, error);
  if (!error) return;
  throw Error(ExitCode::kVolume,
              fmt::format("[run] cannot remove {}: {}", directory.string(), error.message()));
}

bool is_free(int port) {
  const contract::FileDescriptor probe(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = htonl(INADDR_ANY);
  place.sin_port = htons(static_cast<std::uint16_t>(port));
  return bind(probe.get(), reinterpret_cast<sockaddr*>(&place), sizeof place) == 0;
}

// The first of so many ports in a row on which nobody listens. Whoever takes one meanwhile makes
// the attempt fail, and the next one looks again.
int free_ports(int count) {
  constexpr int kFirst = job::kFirstHostPort, kEnd = job::kEndOfHostPorts, kTries = 1000;
  std::random_device random;
  for (int i = 0; i < kTries && count <= kEnd - kFirst; ++i) {
    const int first = std::uniform_int_distribution(kFirst, kEnd - count)(random);
    int free = 0;
    while (free < count && is_free(first + free)) ++free;
    if (free == count) return first;
  }
  throw Error(
      ExitCode::kPeersMissing,
      fmt::format("[run] found no {} free ports in a row between {} and {}", count, kFirst, kEnd));
}

// What a template says of the environment; what stands elsewhere in a cluster is not here.
std::map<std::string, std::string> containers_environment(const job::ReplicaSpec* replicas) {
  std::map<std::string, std::string> environment;
  const job::Json* container = replicas ? job::trainer_container(*replicas) : nullptr;
  if (!container || !container->contains("env") || !container->at("env").is_array())
    return environment;
  for (const job::Json& variable : container->at("env"))
    if (variable.contains("name") && variable.contains("value"))
      environment[variable.at("name").get<std::string>()] = variable.at("value").get<std::string>();
  return environment;
}

}  // namespace

job::Installation local_installation() {
  job::Installation installation;
  installation.pod_security = job::PodSecurity::kPrivileged;
  return installation;
}

LocalCluster::LocalCluster(job::TrainingJob job, LocalOptions options)
    : job_(with_local_paths(std::move(job), options.volumes)), options_(std::move(options)) {}

LocalCluster::~LocalCluster() { kill_all(); }

job::Observed LocalCluster::observe(const job::TrainingJob&) {
  job::Observed observed;
  observed.now = now();
  observed.installation = local_installation();
  observed.keys_secret = "none";  // whoever shares a machine needs no keys
  // One that was told to leave and has left was seen so once; now it is gone.
  std::erase_if(workers_,
                [](const LocalWorker& worker) { return worker.leaving() && worker.has_ended(); });
  // Those with a child come first in the list: mpirun is the child of one of them.
  std::set<int> launching;  // attempts
  look_at_hosts();
  for (LocalWorker& worker : workers_) {
    const int attempt = worker.id().attempt;
    const bool had_ended = worker.has_ended();
    observed.workers.push_back(worker.observe(observed.now, !launching.contains(attempt)));
    if (!had_ended && worker.has_lost_host()) options_.hosts->lost(worker.node());
    if (worker.has_child() && !worker.has_ended()) launching.insert(attempt);
    const bool first = worker.id().role == job::Role::kWorker && worker.id().index == 0;
    if (first && worker.has_ended()) last_end_ = observed.workers.back();
    if (first && options_.hosts && observed.workers.back().ready) wrote_on_ = worker.node();
  }
  for (const job::WorkerId& id : waiting_) observed.workers.push_back(waiting(id));
  return observed;
}

bool LocalCluster::record(const job::TrainingJob&, const job::Status& status,
                          const std::vector<job::Event>& events) {
  options_.recorded(status, events);
  job_.status = status;
  return true;
}

void LocalCluster::apply(const job::TrainingJob& job, std::span<const job::Action> actions) {
  for (const job::Action& action : actions) {
    if (const auto* object = std::get_if<job::EnsureObject>(&action)) {
      if (object->kind == job::ObjectKind::kConfigMap) write_files(job);
    } else if (const auto* create_worker = std::get_if<job::CreateWorker>(&action)) {
      create(job, create_worker->id);
    } else if (const auto* delete_worker = std::get_if<job::DeleteWorker>(&action)) {
      remove(*delete_worker);
    }
  }
  start_those_who_wait();
}

void LocalCluster::write_files(const job::TrainingJob& job) {
  // Who is made anew beside the others finds what they found.
  if (std::exchange(attempt_, job.status.attempt) == job.status.attempt) return;
  const job::Paths files = paths(job.status.attempt);
  const auto workers = static_cast<std::size_t>(job.status.workers);
  contract::write_whole_file(files.hostfile,
                             hostfile(std::vector<std::string>(workers, "localhost")));
  if (job::trains_over_tcp(job.spec)) contract::write_whole_file(files.key, make_server_key());
  const int ports = servers_of(job) + schedulers_of(job) + peers_of(job);
  if (ports > 0) first_port_ = free_ports(ports);
  std::string names;
  for (int i = 0; i < job.status.workers; ++i) names += "localhost\n";
  contract::write_whole_file(files.workers, names);
  if (job.spec.training) {
    contract::write_whole_file(files.config, job::training_config(job, files));
  }
}

void LocalCluster::create(const job::TrainingJob& job, const job::WorkerId& id) {
  const auto same = [&](const LocalWorker& worker) { return worker.id() == id; };
  if (std::ranges::any_of(workers_, same) || std::ranges::count(waiting_, id) > 0) return;
  if (!options_.hosts) return start(job, id, kHere);
  waiting_.push_back(id);
  if (!waiting_since_) waiting_since_ = Clock::now();
}

void LocalCluster::start(const job::TrainingJob& job, const job::WorkerId& id, int place_of_it) {
  const job::Paths files = paths(id.attempt, place_of_it);
  const job::WorkerSpec spec = job::worker_spec(job, id, files);
  const bool is_worker = id.role == job::Role::kWorker;
  LocalWorkerOptions options{
      .id = id,
      .directory = attempt_directory(id.attempt) / job::short_name(id.role, id.index),
      .slots = job::traits_of(id.role).slots(job.spec),
      .supervises = is_worker && !spec.command.empty()};
  remove_leftovers(options.directory);
  std::optional<contract::ChildProcess> child;
  if (place_of_it != kHere) {
    options.node = options_.hosts->hosts()[static_cast<std::size_t>(place_of_it)].name;
    contract::write_whole_file(files.config, job::training_config(job, files));
    contract::ProcessOptions on_host = process(job, spec);
    add_host(on_host, is_worker, place_of_it);
    contract::save_environment(options.directory, on_host.environment);
    child.emplace(on_host);
  } else if (!is_worker || !spec.serves) {
    child.emplace(process(job, spec));
  }
  const auto place = child ? workers_.begin() : workers_.end();
  workers_.emplace(place, options, std::move(child));
}

void LocalCluster::remove(const job::DeleteWorker& action) {
  std::erase_if(waiting_, [&](const job::WorkerId& id) { return uid_of(id) == action.uid; });
  if (waiting_.empty()) waiting_since_.reset();
  const auto found = std::ranges::find(workers_, action.uid, &LocalWorker::uid);
  if (found == workers_.end()) return;
  found->ask_to_leave(now(), action.force ? job::Seconds(0) : action.grace);
  if (action.force) found->kill();
}

contract::ProcessOptions LocalCluster::process(const job::TrainingJob& job,
                                               const job::WorkerSpec& spec) const {
  contract::ProcessOptions process;
  process.command = spec.command.empty()
                        ? job::container_command(*job::traits_of(spec.id.role).replicas(job.spec))
                        : spec.command;
  if (process.command.empty()) {
    throw Error(ExitCode::kBadInput,
                "[run] the job has neither `training` nor a template with a command");
  }
  for (std::string& word : process.command) {
    if (word == "coxswain-trainer") word = options_.trainer;
  }
  process.listens = !spec.command.empty();  // our own worker
  process.environment = spec.environment;
  process.environment.merge(
      containers_environment(job::traits_of(spec.id.role).replicas(job.spec)));
  process.environment["COXSWAIN_LOG_FORMAT"] = options_.log_format;
  if (options_.terminal_columns > 0) {
    process.environment["COXSWAIN_TERMINAL_COLUMNS"] = std::to_string(options_.terminal_columns);
  }
  if (const auto point = fail_point(options_.kill, job.spec, spec.id); !point.empty())
    process.environment["COXSWAIN_FAIL_POINT"] = point;
  // The workers' names resolve to nothing here, and two jobs may run at a time.
  for (const char* name : {"MASTER_ADDR", "PET_MASTER_ADDR", "DMLC_PS_ROOT_URI"})
    if (process.environment.contains(name)) process.environment[name] = "127.0.0.1";
  const int first_peer = first_port_ + servers_of(job) + schedulers_of(job);
  for (const char* name : {"MASTER_PORT", "PET_MASTER_PORT"})
    if (process.environment.contains(name)) process.environment[name] = std::to_string(first_peer);
  const auto tf = process.environment.find("TF_CONFIG");
  if (tf != process.environment.end()) tf->second = local_tf_config(job, tf->second, first_port_);
  if (job::has_scheduler(job.spec)) {
    process.environment["DMLC_PS_ROOT_PORT"] = std::to_string(first_port_ + servers_of(job));
    process.environment["DMLC_NODE_HOST"] = "127.0.0.1";
  }
  if (job::trains_over_tcp(job.spec))
    process.environment["COXSWAIN_PEER_PORT"] = std::to_string(first_peer);
  if (servers_of(job) > 0) process.environment["COXSWAIN_SERVERS"] = server_addresses();
  process.environment.erase("OMPI_MCA_orte_default_hostfile");
  process.environment.erase("PRTE_MCA_prte_default_hostfile");
  return process;
}

void LocalCluster::end_all() {
  waiting_.clear();
  for (LocalWorker& worker : workers_) {
    worker.ask_to_leave(now(), job_.spec.run_policy.termination_grace);
  }
}

void LocalCluster::kill_all() {
  waiting_.clear();
  for (LocalWorker& worker : workers_) worker.kill();
}

bool LocalCluster::idle() const {
  return waiting_.empty() && std::ranges::all_of(workers_, &LocalWorker::has_ended);
}

std::vector<int> LocalCluster::descriptors() const {
  std::vector<int> all;
  for (const LocalWorker& worker : workers_) {
    const auto& some = worker.descriptors();
    all.insert(all.end(), some.begin(), some.end());
  }
  if (options_.hosts)
    for (const int descriptor : options_.hosts->descriptors()) all.push_back(descriptor);
  return all;
}

milliseconds LocalCluster::look_within() const {
  auto next = Clock::now() + kLongestWait;
  if (options_.hosts) next = std::min(next, Clock::now() + options_.hosts->look_within());
  if (waiting_since_)
    next = std::min(next, *waiting_since_ + job_.spec.run_policy.startup_deadline);
  for (const LocalWorker& worker : workers_) {
    if (worker.leaving() && worker.has_ended()) return milliseconds(0);
    if (const auto look = worker.look_again()) next = std::min(next, *look);
  }
  return std::max(milliseconds(0), std::chrono::ceil<milliseconds>(next - Clock::now()));
}

std::filesystem::path LocalCluster::attempt_directory(int attempt) const {
  return options_.run_dir / std::to_string(attempt);
}

job::Paths LocalCluster::paths(int attempt, int place) const {
  const auto directory = attempt_directory(attempt);
  // Where the digits lie is each host's own affair.
  const bool here = place == kHere;
  const std::string config = here ? "training.yaml" : fmt::format("training-{}.yaml", place);
  const std::filesystem::path digits =
      here ? options_.bundled_digits
           : std::filesystem::path(options_.hosts->directory(place)) / "mnist";
  return {.config = directory / config,
          .hostfile = directory / "hostfile",
          .workers = directory / "workers",
          .key = directory / "key",
          .data = options_.volumes.data,
          .checkpoints = options_.volumes.checkpoints,
          .bundled_mnist = digits,
          .run_dir = options_.run_dir,
          .gpu = Device::kAuto};
}

}  // namespace coxswain::cluster
