#include "trainer/communicators.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>

#include "trainer/comm/tcp/tcp_wire.h"
#include "trainer/comm/wired_communicator.h"
#include "trainer/contract/config/config_reader.h"
#include "trainer/contract/config/config_rules.h"
#include "trainer/contract/error.h"
#include "trainer/contract/worker/run_files.h"
#include "trainer/launch/hosts.h"
#include "trainer/tensor/fnv1a.h"
#include "trainer/world_claim.h"

namespace coxswain {

using contract::lookup_environment;

namespace {

using contract::TrainerConfig;
using contract::WorkerEnv;

constexpr std::size_t kMaxKeyFile = 4096;

void tell_late(double seconds, int rank) {
  fmt::print(stderr, "coxswain-trainer: rank {} is late: {:.1f} s so far\n", rank, seconds);
}

// Where every rank listens: on its host's ports, the first rank of a host on the first.
std::vector<net::Address> addresses_of(const WorkerEnv& env) {
  std::vector<net::Address> addresses;
  std::map<std::string, int> ranks_of_host;
  for (const std::string& host : launch::read_hostfile(env.hostfile, env.world_size / env.slots))
    for (int slot = 0; slot < env.slots; ++slot)
      addresses.push_back({host, env.peer_port + ranks_of_host[host]++});
  return addresses;
}

// The ranks on this machine: those of the workers that the hostfile puts there.
struct Neighbours {
  int before = 0;  // of workers before this one
  int all = 1;
};

Neighbours neighbours_of(const WorkerEnv& env) {
  if (env.hostfile.empty() || env.role != contract::Role::kWorker) return {0, env.slots};
  const auto hosts = launch::read_hostfile(env.hostfile, env.world_size / env.slots);
  if (env.index >= std::ssize(hosts))
    throw Error(ExitCode::kBadInput,
                fmt::format("[launch] worker {} of {} (COXSWAIN_INDEX, COXSWAIN_WORLD_SIZE)",
                            env.index, hosts.size()));
  const auto own = hosts.begin() + env.index;
  return {static_cast<int>(std::count(hosts.begin(), own, *own)) * env.slots,
          static_cast<int>(std::count(hosts.begin(), hosts.end(), *own)) * env.slots};
}

comm::TcpOptions tcp_options(const TrainerConfig& config, const WorkerEnv& env) {
  const net::NetworkOptions network = network_options(config, env, rank_of_this_process());
  comm::TcpOptions options;
  options.hello = network.hello;
  options.secret = network.secret;
  options.encrypt = network.encrypt;
  options.addresses = addresses_of(env);
  if (options.hello.rank >= env.world_size)
    throw Error(ExitCode::kBadInput,
                fmt::format("[comm] RANK={} of a world of {}", options.hello.rank, env.world_size));
  // Before the job's own deadline, so that the reason is told.
  options.startup_deadline = std::chrono::seconds(env.startup_seconds) * 3 / 4;
  options.on_waiting = [](const std::string& missing) {
    fmt::print(stderr, "coxswain-trainer: {}\n", missing);
  };
  return options;
}

std::unique_ptr<comm::Communicator> join_over_tcp(const TrainerConfig& config, const WorkerEnv& env,
                                                  std::function<void(const Error&)> on_lost) {
  const comm::TcpOptions options = tcp_options(config, env);
  comm::WiredOptions wired;
  wired.startup_deadline = options.startup_deadline + std::chrono::seconds(10);
  wired.step_deadline = std::chrono::seconds(config.step_deadline_seconds);
  wired.on_lost = on_lost;
  wired.on_given_up = std::move(on_lost);
  wired.on_late = tell_late;
  return comm::make_wired_communicator([options] { return comm::open_tcp_wire(options); },
                                       std::move(wired));
}

bool has_servers(const std::optional<WorkerEnv>& env) {
  return env.has_value() && !env->servers.empty();
}

void require_codec_for_those_who_sum(const TrainerConfig& config,
                                     const std::optional<WorkerEnv>& env) {
  const Compression compression = config.communication.compression;
  if (!suits_sums(compression) && !has_servers(env)) {
    throw Error(
        ExitCode::kBadInput,
        fmt::format("[comm] communication.compression is {}, but there are no servers: write "
                    "{}, or strategy: ParameterServer in a job",
                    word(compression), kOfSums));
  }
  if (config.communication.partial > 1 && has_servers(env)) {
    throw Error(ExitCode::kBadInput,
                fmt::format("[comm] communication.partial is {}, but parameter servers take all "
                            "gradients of a step: write 1, or strategy: AllReduce in a job",
                            config.communication.partial));
  }
}

void require_what_servers_can(const TrainerConfig& config, const std::optional<WorkerEnv>& env) {
  const std::string lacking = contract::lacks_with_servers(config);
  if (lacking.empty() || !has_servers(env)) return;
  throw Error(ExitCode::kBadInput,
              fmt::format("[train] {} is not there with parameter servers: leave it out, or write "
                          "strategy: AllReduce in a job",
                          lacking));
}

[[noreturn]] void refuse_backend(const char* backend, const char* why) {
  throw Error(
      ExitCode::kBadInput,
      fmt::format("[comm] communication.backend is {}, but {}, or write auto", backend, why));
}

std::unique_ptr<comm::Communicator> join(const TrainerConfig& config,
                                         const std::optional<WorkerEnv>& env,
                                         std::function<void(const Error&)> on_lost) {
  const auto backend = config.communication.backend;
  if (under_mpirun()) {
    if (backend == CommunicationBackend::kTcp)
      refuse_backend("tcp", "mpirun started this process: write mpi");
    comm::MpiOptions options = mpi_options(config);
    options.on_lost = on_lost;
    options.on_given_up = std::move(on_lost);
    options.on_late = tell_late;
    return comm::make_mpi_communicator(options);
  }
  if (backend == CommunicationBackend::kMpi)
    refuse_backend("mpi", "mpirun did not start this process: start it with mpirun");
  if (among_tcp_ranks(env)) return join_over_tcp(config, *env, std::move(on_lost));
  if (backend == CommunicationBackend::kTcp)
    refuse_backend("tcp", "only ranks of a job find each other over TCP: use `coxswain run`");
  return comm::make_solo_communicator();
}

}  // namespace

comm::MpiOptions mpi_options(const contract::TrainerConfig& config) {
  comm::MpiOptions options;
  options.step_deadline_seconds = static_cast<double>(config.step_deadline_seconds);
  return options;
}

bool under_mpirun() { return lookup_environment(kOpenMpiSize).has_value(); }

bool among_tcp_ranks(const std::optional<WorkerEnv>& env) {
  return env && env->world_size > 1 && !env->key.empty() && !under_mpirun();
}

std::unique_ptr<comm::Communicator> make_communicator(const TrainerConfig& config,
                                                      const std::optional<WorkerEnv>& env,
                                                      std::function<void(const Error&)> on_lost) {
  require_codec_for_those_who_sum(config, env);
  require_what_servers_can(config, env);
  if (trains_apart(config, env)) return comm::make_solo_communicator();
  auto communicator = join(config, env, std::move(on_lost));
  require_whole_world(communicator->size(), lookup_environment);
  return communicator;
}

bool trains_apart(const TrainerConfig& config, const std::optional<WorkerEnv>& env) {
  const bool are_servers = has_servers(env);
  const KvStore store = config.kv_store;
  if (store != KvStore::kNone && has_servers(store) != are_servers)
    throw Error(
        ExitCode::kBadInput,
        fmt::format("[ps] kvStore is {}, and there are {}servers: write {}", word(store),
                    are_servers ? "" : "no ",
                    are_servers ? "dist_sync" : "strategy: ParameterServer in a job, or local"));
  const ServerMode mode = config.parameter_server.mode;
  if (mode == ServerMode::kSync) return false;
  if (!are_servers)
    throw Error(ExitCode::kBadInput,
                fmt::format("[ps] parameterServer.mode is {}, but there are no servers: write "
                            "sync, or strategy: ParameterServer in a job",
                            word(mode)));
  return true;
}

std::optional<std::int64_t> staleness_bound(const TrainerConfig& config) {
  if (config.parameter_server.mode != ServerMode::kSsp) return std::nullopt;
  return config.parameter_server.staleness;
}

int rank_of_this_process() {
  const std::string text = lookup_environment("RANK").value_or("0");
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0)
    throw Error(ExitCode::kBadInput, fmt::format("[comm] RANK={} is no rank", text));
  return value;
}

net::NetworkOptions network_options(const TrainerConfig& config, const WorkerEnv& env, int rank) {
  net::NetworkOptions options;
  options.hello.job = env.job_uid.empty() ? env.job : env.job_uid;
  options.hello.attempt = env.attempt;
  options.hello.incarnation = env.incarnation;
  options.hello.role = contract::to_text(env.role);
  options.hello.rank = rank;
  options.hello.world_size = env.world_size;
  options.hello.fingerprint = fmt::format("{:016x}", tensor::fnv1a(contract::to_yaml(config)));
  const auto key = contract::read_small_file(env.key, kMaxKeyFile);
  options.encrypt = config.communication.encryption == Encryption::kTls;
  options.secret = net::secret_of_hex(key.value_or(""), env.key.string());
  return options;
}

// The environment's reader has seen that each is host:port.
std::vector<net::Address> server_addresses(const WorkerEnv& env) {
  std::vector<net::Address> addresses;
  for (const std::string& text : env.servers) {
    const std::size_t colon = text.rfind(':');
    addresses.push_back({text.substr(0, colon), std::stoi(text.substr(colon + 1))});
  }
  return addresses;
}

int place_on_this_machine(const std::optional<contract::WorkerEnv>& env, int rank) {
  const auto local = lookup_environment("OMPI_COMM_WORLD_LOCAL_RANK");
  if (local.has_value()) return std::max(0, std::atoi(local->c_str()));
  if (!env.has_value()) return 0;
  return neighbours_of(*env).before + rank % env->slots;
}

int ranks_on_this_machine(const std::optional<contract::WorkerEnv>& env) {
  const auto local = lookup_environment("OMPI_COMM_WORLD_LOCAL_SIZE");
  if (local.has_value()) return std::max(1, std::atoi(local->c_str()));
  if (!env.has_value()) return 1;
  return neighbours_of(*env).all;
}

}  // namespace coxswain
