// Stands in for coxswain-trainer in tests of processes: `rank` and `worker` are the real ones.
//
//   fake_trainer act BEHAVIOUR...    what the command of a rank does: the n-th word is rank n's,
//   the
//                                    last one also that of the ranks after it
// done:CODE   leaves with CODE            late:CODE   leaves with CODE after 1.5 s
// die:SIGNAL  dies of it                  flaky:CODE  CODE in the first attempt, 0 afterwards
// save        waits for SIGUSR1, leaves with 75; with 71 on SIGTERM
// plain       waits, signals as the system handles them
// deaf        waits, and ignores both
// `train` acts by the words of FAKE_TRAIN. `server` leaves with 0 on SIGTERM; the first server 1 of
// the first attempt at once with FAKE_SERVER, where that is set. Both say what COXSWAIN_FAIL_POINT
// says.
// Whoever waits gives up after 60 s with code 99. Each writes its number to <run dir>/acts.

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "trainer/contract/worker/child_process.h"
#include "trainer/contract/worker/run_files.h"
#include "trainer/contract/worker/termination_message.h"
#include "trainer/launch/rank.h"
#include "trainer/launch/worker.h"

namespace {

using namespace coxswain;

int number_after_colon(const std::string& text) {
  return std::stoi(text.substr(text.find(':') + 1));
}

void leave_message(const contract::WorkerEnv& env, int rank) {
  contract::TerminationMessage message;
  message.phase = "Saved";
  message.message = "saved by rank " + std::to_string(rank);
  message.checkpoint = contract::CheckpointProgress{
      .step = 40, .time = "2024-05-01T12:00:00Z", .path = "step-00000040.g1", .bytes = 100};
  contract::write_whole_file(contract::command_message_file(contract::worker_directory(env), rank),
                             to_json(message));
}

int wait_for_signals(const contract::WorkerEnv& env, int rank, const std::string& behaviour) {
  if (behaviour == "plain") {
    sleep(60);
    return 99;
  }
  contract::SignalQueue signals({SIGUSR1, SIGTERM});
  std::cout << "rank " << rank << " listens" << std::endl;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (std::chrono::steady_clock::now() < deadline) {
    contract::wait_readable({signals.descriptor()}, std::chrono::seconds(60));
    const auto signal = signals.next();
    if (behaviour == "deaf" || !signal) continue;
    if (*signal == SIGTERM) return 71;
    leave_message(env, rank);
    return 75;
  }
  return 99;
}

int act(const contract::WorkerEnv& env, int rank, const std::string& behaviour) {
  std::ofstream(env.run_dir / "acts", std::ios::app) << getpid() << " " << rank << std::endl;
  const std::string word = behaviour.substr(0, behaviour.find(':'));
  if (word == "late") std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  if (word == "done" || word == "late") return number_after_colon(behaviour);
  if (word == "flaky") return env.attempt == 0 ? number_after_colon(behaviour) : 0;
  if (word == "die") {
    std::signal(number_after_colon(behaviour), SIG_DFL);
    raise(number_after_colon(behaviour));
  }
  return wait_for_signals(env, rank, behaviour);
}

void say_fail_point(const contract::WorkerEnv& env) {
  if (const auto point = contract::lookup_environment("COXSWAIN_FAIL_POINT"))
    std::cout << to_text(env.role) << " " << env.index << " dies at " << *point << std::endl;
}

int serve() {
  const auto env = contract::from_env(contract::lookup_environment);
  say_fail_point(env);
  std::cout << "server " << env.index << " of " << env.servers.size() << " listens" << std::endl;
  const auto told = contract::lookup_environment("FAKE_SERVER");
  if (told && env.attempt == 0 && env.incarnation == 0 && env.index == 1) {
    contract::TerminationMessage message;
    message.exit_code = std::stoi(*told);
    message.reason = "Internal";
    message.message = "failed as told";
    contract::write_whole_file(contract::termination_file(env), to_json(message));
    return message.exit_code;
  }
  contract::SignalQueue signals({SIGTERM});
  contract::wait_readable({signals.descriptor()}, std::chrono::seconds(60));
  return signals.next() ? 0 : 99;
}

int act(int count, char** behaviours) {
  const auto env = contract::from_env(contract::lookup_environment);
  auto rank = contract::lookup_environment("OMPI_COMM_WORLD_RANK");
  if (!rank) rank = contract::lookup_environment("RANK");
  const int number = std::stoi(rank.value_or("0"));
  return act(env, number, behaviours[std::min(number, count - 1)]);
}

int train() {
  say_fail_point(contract::from_env(contract::lookup_environment));
  std::istringstream words(contract::lookup_environment("FAKE_TRAIN").value_or("done:0"));
  std::vector<std::string> behaviours;
  for (std::string word; words >> word;) behaviours.push_back(word);
  std::vector<char*> texts;
  for (std::string& word : behaviours) texts.push_back(word.data());
  return act(static_cast<int>(texts.size()), texts.data());
}

}  // namespace

int main(int argc, char** argv) {
  const std::string verb = argc > 1 ? argv[1] : "";
  try {
    if (verb == "server") return serve();
    if (verb == "train") return train();
    if (verb == "act" && argc > 2) return act(argc - 2, argv + 2);
    int command_start = 2;
    launch::WorkerOptions worker;
    while (command_start < argc && std::string(argv[command_start++]) != "--") {
      const std::string flag = argv[command_start - 1];
      if (flag == "env") worker.launcher = launch::Launcher::kEnv;
    }
    worker.command.assign(argv + command_start, argv + argc);
    if (verb == "rank") return launch::run_rank({.command = worker.command});
    if (verb == "worker") {
      return launch::run_worker(contract::from_env(contract::lookup_environment), worker);
    }
  } catch (const Error& error) {
    std::cerr << error.what() << std::endl;
    return static_cast<int>(error.code());
  }
  return 2;
}
