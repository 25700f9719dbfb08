#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <sstream>

#include "tests/support/test_flags.h"
#include "tests/trainer/launch/process_tree/process_tree.h"
#include "trainer/contract/worker/child_process.h"
#include "trainer/contract/worker/run_files.h"
#include "trainer/contract/worker/termination_message.h"
#include "trainer/launch/rank_report.h"

namespace coxswain::launch {
namespace {

using namespace std::chrono_literals;
using contract::ChildProcess;
using test::eventually;
using test::find_descendant;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

struct RunOptions {
  std::string launcher = "mpi";
  int workers = 2;
  int slots = 1;
  std::map<std::string, std::string> environment = {};
};

// A worker 0 and everything below it, in a run directory of its own.
class WorkerRun {
 public:
  explicit WorkerRun(std::vector<std::string> command, RunOptions options = {})
      : out_(open((directory_.path() / "out").c_str(), O_CREAT | O_WRONLY | O_APPEND, 0644)),
        err_(open((directory_.path() / "err").c_str(), O_CREAT | O_WRONLY | O_APPEND, 0644)),
        worker_(process(std::move(command), options)),
        watch_(worker_.pid()) {}

  pid_t pid() const { return worker_.pid(); }
  void signal(int number) { worker_.signal(number); }

  // Every rank's command listens.
  bool listening(int ranks) {
    const bool all = eventually([&] { return count_in(output(), " listens\n") == ranks; });
    watch_.look();
    return all;
  }

  // The commands of `ranks` ranks run.
  bool acting(int ranks) {
    const bool all = eventually([&] { return count_in(acts(), "\n") == ranks; });
    watch_.look();
    return all;
  }

  int code(std::chrono::milliseconds limit = 10s) {
    EXPECT_TRUE(eventually([&] { return worker_.end().has_value(); }, limit)) << errors();
    return worker_.end().value_or(contract::ProcessEnd{.code = -1, .signal = 0}).code;
  }

  bool nothing_left() {
    const bool gone = eventually([&] { return watch_.left().empty(); }, 5s);
    EXPECT_THAT(watch_.left(), IsEmpty());
    return gone;
  }

  pid_t find(const std::vector<std::string>& words) { return find_descendant(pid(), words); }
  pid_t command_of(int rank) {
    std::istringstream lines(acts());
    for (pid_t found = 0, its_rank = 0; lines >> found >> its_rank;) {
      if (its_rank == rank) return found;
    }
    return 0;
  }
  pid_t supervisor_of(int rank, int worker) {
    for (const auto& announced : contract::read_announced(worker_directory(worker))) {
      if (announced.rank == rank) return announced.pid;
    }
    return 0;
  }

  contract::TerminationMessage message(int worker = 0) {
    const auto text = text_of(worker_directory(worker) / "termination.json");
    const auto message = contract::parse_termination_message(text);
    EXPECT_TRUE(message.has_value()) << "worker " << worker << ": " << text;
    return message.value_or(contract::TerminationMessage{});
  }
  std::string output() { return text_of(directory_.path() / "out"); }
  std::string errors() { return text_of(directory_.path() / "err"); }
  std::filesystem::path worker_directory(int worker) {
    return directory_.path() / "1" / ("worker-" + std::to_string(worker));
  }

 private:
  static int count_in(const std::string& text, const std::string& part) {
    int count = 0;
    for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
    return count;
  }
  std::string acts() { return text_of(directory_.path() / "acts"); }

  contract::ProcessOptions process(std::vector<std::string> command, const RunOptions& options) {
    contract::WorkerEnv env;
    env.job = "test";
    env.attempt = 1;
    env.slots = options.slots;
    env.world_size = options.workers * options.slots;
    env.run_dir = directory_.path();
    contract::ProcessOptions process;
    process.command = {FAKE_TRAINER, "worker", "--launcher", options.launcher, "--"};
    process.command.insert(process.command.end(), command.begin(), command.end());
    process.environment = contract::to_env(env);
    for (const auto& [name, value] : options.environment) process.environment[name] = value;
    process.listens = true;
    process.stdout_fd = out_.get();
    process.stderr_fd = err_.get();
    return process;
  }

  test::TemporaryDirectory directory_;
  contract::FileDescriptor out_;
  contract::FileDescriptor err_;
  ChildProcess worker_;
  test::TreeWatch watch_;
};

std::vector<std::string> act(std::vector<std::string> behaviours) {
  std::vector<std::string> command{FAKE_TRAINER, "act"};
  command.insert(command.end(), behaviours.begin(), behaviours.end());
  return command;
}

struct EndCase {
  const char* name;
  RunOptions options;
  std::vector<std::string> behaviours;
  int code;            // of worker 0
  int rank;            // that worker 0 names
  const char* reason;  // of worker 0
};

class WorkerEnds : public ::testing::TestWithParam<EndCase> {};

TEST_P(WorkerEnds, with_the_first_cause_among_its_own_ranks) {
  const EndCase& row = GetParam();
  WorkerRun run(act(row.behaviours), row.options);

  EXPECT_EQ(run.code(), row.code) << run.errors();
  EXPECT_EQ(run.message().exit_code, row.code);
  EXPECT_EQ(run.message().rank, row.rank);
  EXPECT_EQ(run.message().reason, row.reason);
  EXPECT_EQ(run.errors(), "");
  run.nothing_left();
}

const RunOptions kTwoSlots{.launcher = "mpi", .workers = 1, .slots = 2, .environment = {}};
const RunOptions kEnvTwoSlots{.launcher = "env", .workers = 1, .slots = 2, .environment = {}};
const RunOptions kEnvOne{.launcher = "env", .workers = 1, .slots = 1, .environment = {}};

INSTANTIATE_TEST_SUITE_P(
    Table, WorkerEnds,
    ::testing::Values(
        EndCase{"done", {}, {"done:0"}, 0, 0, ""},
        EndCase{"own_rank_fails", {}, {"done:65", "plain"}, 65, 0, "Error"},
        EndCase{"own_rank_is_killed", {}, {"die:9", "plain"}, 137, 0, "Signal"},
        EndCase{"own_rank_crashes", {}, {"die:11", "save"}, 139, 0, "Signal"},
        EndCase{"other_workers_rank_fails", {}, {"plain", "done:3"}, 71, 0, "PeerLost"},
        EndCase{"second_slot_fails", kTwoSlots, {"plain", "late:3"}, 3, 1, "Error"},
        EndCase{"cause_beats_lost_peer", kTwoSlots, {"done:71", "late:3"}, 71, 0, "Error"},
        EndCase{"saved_by_itself", {}, {"done:75"}, 75, 0, ""},
        EndCase{"env_done", kEnvTwoSlots, {"done:0"}, 0, 0, ""},
        EndCase{"env_fails", kEnvTwoSlots, {"plain", "done:4"}, 4, 1, "Error"},
        EndCase{"env_killed", kEnvOne, {"die:9"}, 137, 0, "Signal"}),
    [](const auto& row) { return row.param.name; });

TEST(Worker, leaves_the_ends_of_workers_that_have_no_process_of_their_own) {
  WorkerRun run(act({"plain", "plain", "late:65"}), {.launcher = "mpi", .workers = 3});

  EXPECT_EQ(run.code(), 71);
  EXPECT_EQ(run.message(1).exit_code, 71);
  EXPECT_EQ(run.message(2).exit_code, 65);
  EXPECT_EQ(run.message(2).rank, 2);
}

TEST(Worker, passes_output_on_and_drops_mpiruns_report) {
  WorkerRun run({"sh", "-c", "echo out; echo err >&2; exit 3"}, {.workers = 1});

  EXPECT_EQ(run.code(), 3);
  EXPECT_EQ(run.output(), "out\n");
  EXPECT_EQ(run.errors(), "err\n");
}

TEST(Worker, asks_its_ranks_to_save_on_SIGTERM) {
  for (const char* launcher : {"mpi", "env"}) {
    const int workers = 1;
    WorkerRun run(act({"save"}), {.launcher = launcher, .workers = workers, .slots = 2});
    ASSERT_TRUE(run.listening(2)) << run.errors();
    run.signal(SIGTERM);
    run.signal(SIGTERM);  // a second one changes nothing

    EXPECT_EQ(run.code(), 75) << launcher << run.errors();
    EXPECT_EQ(run.message().message, "saved by rank 0");
    ASSERT_TRUE(run.message().checkpoint.has_value());
    EXPECT_EQ(run.message().checkpoint->step, 40);
    run.nothing_left();
  }
}

TEST(Worker, asks_also_ranks_that_start_after_SIGTERM) {
  WorkerRun run(act({"save"}), {.workers = 1});
  run.signal(SIGTERM);
  EXPECT_EQ(run.code(), 75) << run.errors();
}

TEST(Worker, counts_a_rank_that_never_listened_as_stopped) {
  WorkerRun run(act({"plain"}), {.workers = 1});
  ASSERT_TRUE(run.acting(1));
  run.signal(SIGTERM);
  EXPECT_EQ(run.code(), 75) << run.errors();
}

TEST(Worker, names_a_killed_command_and_leaves_nothing) {
  WorkerRun run(act({"deaf", "save"}));
  ASSERT_TRUE(run.listening(2)) << run.errors();
  kill(run.command_of(1), SIGKILL);

  EXPECT_EQ(run.code(), 71) << run.errors();
  EXPECT_EQ(run.message(1).exit_code, 137);
  EXPECT_THAT(run.message(1).message, HasSubstr("memory ran out"));
  run.nothing_left();
}

TEST(Worker, names_a_rank_whose_supervisor_was_killed) {
  WorkerRun run(act({"save"}));
  ASSERT_TRUE(run.listening(2)) << run.errors();
  kill(run.supervisor_of(0, 0), SIGKILL);

  EXPECT_EQ(run.code(), 137) << run.errors();
  EXPECT_EQ(run.message().rank, 0);
  run.nothing_left();
}

TEST(Worker, says_that_mpirun_was_killed_and_leaves_nothing) {
  WorkerRun run(act({"deaf", "save"}));
  ASSERT_TRUE(run.listening(2)) << run.errors();
  kill(run.find({"mpirun", "--host"}), SIGKILL);

  EXPECT_EQ(run.code(), 137);
  EXPECT_EQ(run.errors(), "[launch] mpirun was killed by signal 9\n");
  EXPECT_EQ(run.message().phase, "Launch");
  run.nothing_left();
}

TEST(Worker, takes_everything_with_it_when_killed) {
  for (const char* launcher : {"mpi", "env"}) {
    WorkerRun run(act({"deaf", "save"}), {.launcher = launcher, .workers = 1, .slots = 2});
    ASSERT_TRUE(run.listening(2)) << run.errors();
    run.signal(SIGKILL);

    EXPECT_EQ(run.code(), 137);
    run.nothing_left();
  }
}

TEST(Worker, says_why_a_command_cannot_start) {
  WorkerRun run({"/no/such/program"}, {.workers = 1});

  EXPECT_EQ(run.code(), 65);
  EXPECT_EQ(run.message().reason, "CannotStart");
  EXPECT_EQ(run.errors(), "[process] can't start /no/such/program: No such file or directory\n");
}

TEST(Worker, names_the_package_when_mpirun_is_missing) {
  WorkerRun run(act({"done:0"}), {.workers = 1, .environment = {{"PATH", "/no/such"}}});

  EXPECT_EQ(run.code(), 65);
  EXPECT_THAT(run.errors(), HasSubstr("apt-get install openmpi-bin"));
  EXPECT_EQ(run.message().exit_code, 65);
}

TEST(Worker, gives_mpiruns_own_reason_in_one_line) {
  WorkerRun run(act({"done:0"}), {.workers = 1, .environment = {{"OMPI_MCA_rmaps", "nosuch"}}});

  EXPECT_EQ(run.code(), 70);
  EXPECT_EQ(run.message().reason, "LaunchFailed");
  EXPECT_THAT(run.errors(), HasSubstr("[launch] mpirun could not start the ranks (code 1): "));
  EXPECT_THAT(run.errors(), Not(HasSubstr("------")));
}

}  // namespace
}  // namespace coxswain::launch
