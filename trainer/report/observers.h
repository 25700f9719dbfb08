#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trainer/train/observer.h"

namespace coxswain::report {

// Tells several observers, in order. They must outlive it.
class Observers : public train::Observer {
 public:
  explicit Observers(std::vector<std::reference_wrapper<train::Observer>> observers);

  void started(const train::RunInfo& info) override;
  void stepped(const train::StepReport& report) override;
  void told(const backend::RankFigures& figures) override;
  void finished_epoch(const train::EpochReport& report) override;
  void finished_epoch_with(const train::WeightsReport& report) override;
  void saved(const train::CheckpointReport& report) override;
  void warned(const std::string& message) override;
  void finished(const train::Summary& summary) override;

 private:
  std::vector<std::reference_wrapper<train::Observer>> observers_;
};

}  // namespace coxswain::report
