#pragma once

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "trainer/report/tensorboard_records.h"
#include "trainer/train/observer.h"

namespace coxswain::report {

struct TensorBoardOptions {
  std::filesystem::path directory;
  // Steps whose evaluation earlier files have: one that is made again there is not told again.
  std::set<std::int64_t> evaluated = {};
  std::function<std::chrono::system_clock::time_point()> now = std::chrono::system_clock::now;
  // Told once, when no more can be written.
  std::function<void(const std::string&)> on_problem = [](const std::string&) {};
};

// Resource. report.tensorboard: curves in a new event file of the directory, one a start; a start
// that goes on from a step says so, and readers drop what earlier files have beyond it. Throws
// Error (74) when the file can't be made. What can't be written later ends the curves, not the run.
class TensorBoardLog : public train::Observer {
 public:
  explicit TensorBoardLog(TensorBoardOptions options);

  void started(const train::RunInfo& info) override;
  void stepped(const train::StepReport& report) override;
  void finished_epoch(const train::EpochReport& report) override;
  void finished_epoch_with(const train::WeightsReport& report) override;
  void saved(const train::CheckpointReport&) override {}
  void warned(const std::string&) override {}
  void finished(const train::Summary&) override {}

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  using File = std::unique_ptr<std::FILE, Close>;

  File open_new();
  double wall_time() const;
  bool has(std::int64_t step) const;
  void write(const std::string& record);

  TensorBoardOptions options_;
  std::int64_t first_step_ = 0;
  File file_;  // null: it could not be written to
};

}  // namespace coxswain::report
