#include <fmt/format.h>

#include <atomic>
#include <csignal>
#include <memory>
#include <thread>

#include "trainer/build.h"
#include "trainer/commands.h"
#include "trainer/communicators.h"
#include "trainer/contract/worker/run_files.h"
#include "trainer/contract/worker/termination_message.h"
#include "trainer/ps/async_training.h"
#include "trainer/ps/serve.h"
#include "trainer/ps/sync_training.h"
#include "trainer/report/server_endpoint.h"
#include "trainer/train/model_state.h"
#include "trainer/train/step_plan.h"

namespace coxswain {

namespace {

using contract::WorkerEnv;

// Any wish to end is one to leave, that of a supervisor to save as well: the servers of a job end
// only when they are told to. To be called before any other thread starts.
void stop_on_signals(std::atomic<bool>& stop) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals, &stop] {
    for (int signal = 0; sigwait(&signals, &signal) == 0;) stop = true;
  }).detach();
}

std::unique_ptr<ps::Server> make_server(const contract::TrainerConfig& config,
                                        const train::TrainOptions& options,
                                        ps::ServerOptions server) {
  const int num_slots = static_cast<int>(train::slot_names(options).size());
  if (config.parameter_server.mode == ServerMode::kSync) {
    ps::SyncOptions sync;
    sync.reduction =
        train::StepCut{server.hello.world_size, options.virtual_shards, options.accumulate}
            .reduction();
    sync.rule = options.rule;
    sync.num_slots = num_slots;
    sync.codec = options.codec;
    return std::make_unique<ps::SyncTraining>(std::move(server), std::move(sync));
  }
  ps::AsyncOptions async;
  async.rule = options.rule;
  async.num_slots = num_slots;
  async.codec = options.codec;
  async.staleness = staleness_bound(config);
  return std::make_unique<ps::AsyncTraining>(std::move(server), async);
}

void serve(const contract::TrainerConfig& config, const WorkerEnv& env,
           const std::atomic<bool>& stop) {
  const std::vector<net::Address> servers = server_addresses(env);
  if (env.role != contract::Role::kServer || env.index >= std::ssize(servers))
    throw Error(ExitCode::kBadInput,
                fmt::format("[ps] COXSWAIN_ROLE and COXSWAIN_INDEX ({}) name none of the {} of "
                            "COXSWAIN_SERVERS: this command is started by a job",
                            env.index, servers.size()));
  const train::TrainOptions options = make_train_options(config, env);
  net::NetworkOptions network = network_options(config, env, env.index);
  network.port = servers[static_cast<std::size_t>(env.index)].port;
  const auto server = make_server(config, options, {network.hello, servers});
  ps::ServeOptions patience;
  patience.startup_seconds = env.startup_seconds;
  patience.on_waiting = [&env](const std::string& missing) {
    fmt::print(stderr, "coxswain-trainer: server {}: missing: {}\n", env.index, missing);
  };
  const bool is_local = !env.run_dir.empty();  // then any port will do
  report::ServerEndpoint endpoint("::", static_cast<std::uint16_t>(is_local ? 0 : env.rank_port));
  const std::optional<train::FailPoint> point = options.fail_point;
  const bool is_to_fail =
      point && point->phase == train::Phase::kServe && point->rank == env.index && env.attempt == 0;
  patience.on_turn = [&](const ps::Server& now) {
    if (is_to_fail && now.step() >= point->step) std::raise(SIGKILL);
    endpoint.set({now.step(), now.connected_workers(), now.received_bytes(), now.sent_bytes()});
  };
  ps::serve(network, *server, patience, stop);
}

}  // namespace

int run_server(const CommandLine& line) {
  static std::atomic<bool> stop = false;  // the thread that takes signals outlives this call
  stop_on_signals(stop);
  const WorkerEnv env = contract::from_env(contract::lookup_environment);
  contract::TerminationMessage end;
  try {
    serve(read_configuration(line).config, env, stop);
  } catch (const Error& error) {
    end.exit_code = static_cast<int>(error.code());
    end.phase = "Serve";
    end.reason = error.code() == ExitCode::kPeersMissing ? "PeersMissing" : "CannotServe";
    end.message = error.what();
    contract::write_whole_file(contract::termination_file(env), contract::to_json(end));
    throw;
  }
  contract::write_whole_file(contract::termination_file(env), contract::to_json(end));
  return 0;
}

}  // namespace coxswain
