#include "trainer/report/observers.h"

#include <utility>

namespace coxswain::report {

Observers::Observers(std::vector<std::reference_wrapper<train::Observer>> observers)
    : observers_(std::move(observers)) {}

void Observers::started(const train::RunInfo& info) {
  for (train::Observer& observer : observers_) observer.started(info);
}

void Observers::stepped(const train::StepReport& report) {
  for (train::Observer& observer : observers_) observer.stepped(report);
}

void Observers::told(const backend::RankFigures& figures) {
  for (train::Observer& observer : observers_) observer.told(figures);
}

void Observers::finished_epoch(const train::EpochReport& report) {
  for (train::Observer& observer : observers_) observer.finished_epoch(report);
}

void Observers::finished_epoch_with(const train::WeightsReport& report) {
  for (train::Observer& observer : observers_) observer.finished_epoch_with(report);
}

void Observers::saved(const train::CheckpointReport& report) {
  for (train::Observer& observer : observers_) observer.saved(report);
}

void Observers::warned(const std::string& message) {
  for (train::Observer& observer : observers_) observer.warned(message);
}

void Observers::finished(const train::Summary& summary) {
  for (train::Observer& observer : observers_) observer.finished(summary);
}

}  // namespace coxswain::report
