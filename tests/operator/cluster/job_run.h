#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/test_flags.h"
#include "tests/trainer/launch/process_tree/process_tree.h"
#include "trainer/contract/worker/child_process.h"
#include "trainer/contract/worker/run_files.h"

// `coxswain run` with real processes; a stand-in takes the trainer's place.
namespace coxswain::test {

using namespace std::chrono_literals;

inline std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

inline int count_in(const std::string& text, const std::string& part) {
  int count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// Of our trainer, with as many servers as workers.
inline constexpr const char* kServersRun = R"(apiVersion: coxswain.dev/v1alpha1
kind: TrainingJob
metadata: {name: test}
spec:
  strategy: ParameterServer
  runPolicy: {backoffLimit: 1}
  replicaSpecs: {Worker: {replicas: 2}}
  training: {model: mlp, data: {format: synthetic}}
)";

// One `coxswain run`, with everything below it, in directories of its own.
class JobRun {
 public:
  explicit JobRun(const std::string& job, std::vector<std::string> arguments = {},
                  std::map<std::string, std::string> environment = {}) {
    const auto bin = directory_.path() / "bin";
    std::filesystem::create_directory(bin);
    std::filesystem::copy_file(COXSWAIN, bin / "coxswain");
    std::filesystem::copy_file(FAKE_TRAINER, bin / "coxswain-trainer");
    std::ofstream(directory_.path() / "job.yaml") << job;
    for (const char* name : {"out", "err"}) {
      files_.emplace_back(
          open((directory_.path() / name).c_str(), O_CREAT | O_WRONLY | O_APPEND, 0644));
    }
    contract::ProcessOptions process;
    process.command = {bin / "coxswain", "run",    "-f", directory_.path() / "job.yaml",
                       "--run-dir",      run_dir()};
    process.command.insert(process.command.end(), arguments.begin(), arguments.end());
    process.environment = std::move(environment);
    process.stdout_fd = files_[0].get();
    process.stderr_fd = files_[1].get();
    run_.emplace(process);
    watch_.emplace(run_->pid());
  }

  std::filesystem::path run_dir() const { return directory_.path() / "run"; }
  void signal(int number) { run_->signal(number); }
  std::string output() { return text_of(directory_.path() / "out"); }
  std::string errors() { return text_of(directory_.path() / "err"); }
  std::string last_line() {
    std::string text = output();
    if (!text.empty() && text.back() == '\n') text.pop_back();
    return text.substr(text.rfind('\n') + 1);
  }

  bool listening(int times) {
    const bool all = eventually([&] { return count_in(output(), " listens\n") >= times; });
    EXPECT_TRUE(all) << output() << errors();
    watch_->look();
    return all;
  }

  bool ends_within(std::chrono::milliseconds limit) {
    return eventually([&] { return run_->end().has_value(); }, limit);
  }

  int code(std::chrono::milliseconds limit = 10s) {
    EXPECT_TRUE(ends_within(limit)) << errors();
    return run_->end().value_or(contract::ProcessEnd{.code = -1, .signal = 0}).code;
  }

  void expect_nothing_left() {
    eventually([&] { return watch_->left().empty(); }, 5s);
    EXPECT_THAT(watch_->left(), ::testing::IsEmpty());
  }

  // The newest command of a rank.
  pid_t command_of(int rank) {
    std::istringstream lines(text_of(run_dir() / "acts"));
    pid_t newest = 0;
    for (pid_t pid = 0, its_rank = 0; lines >> pid >> its_rank;) {
      if (its_rank == rank) newest = pid;
    }
    return newest;
  }
  pid_t supervisor_of(int rank, int attempt) {
    for (const auto& announced : contract::read_announced(run_dir() / std::to_string(attempt) /
                                                          fmt::format("worker-{}", rank))) {
      if (announced.rank == rank) return announced.pid;
    }
    return 0;
  }
  pid_t find(const std::vector<std::string>& words) { return find_descendant(run_->pid(), words); }

 private:
  TemporaryDirectory directory_;
  std::vector<contract::FileDescriptor> files_;
  std::optional<contract::ChildProcess> run_;
  std::optional<TreeWatch> watch_;
};

}  // namespace coxswain::test
