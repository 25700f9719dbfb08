#pragma once

#include "trainer/train/observer.h"

// One run of singa-cnn on two ranks, as the reports see it.
namespace coxswain::report {

inline train::RunInfo sample_run() {
  train::RunInfo info;
  info.model = "singa-cnn";
  info.parameters = 431080;
  info.multiply_accumulates = 2'293'000;
  info.world_size = 2;
  info.training_samples = 60000;
  info.test_samples = 10000;
  info.epochs = 10;
  info.total_steps = 4690;
  info.steps_per_epoch = 469;
  info.global_batch = 128;
  info.lr = 0.05;
  info.fingerprint = "f00d";
  return info;
}

inline train::StepReport sample_step(std::int64_t step = 1606) {
  train::StepReport report;
  report.step = step;
  report.epoch = 4;
  report.loss = 0.03123;
  report.accuracy = 0.99117;
  report.samples_per_second = 15234.4;
  report.seconds_left = 32.2;
  report.lr = 0.045;
  report.scaling_efficiency = 0.9375;
  return report;
}

inline train::EpochReport sample_epoch() {
  train::EpochReport report;
  report.epoch = 4;
  report.training_loss = 0.0291;
  report.training_accuracy = 0.9913;
  report.evaluated = true;
  report.loss = 0.0256;
  report.accuracy = 0.9921;
  report.top5 = 0.9999;
  report.seconds = 3.94;
  report.samples_per_second = 15228;
  report.scaling_efficiency = 0.953125;
  report.step = 1876;
  report.lr = 0.045;
  report.seconds_in_all = 18.6;
  return report;
}

inline train::Summary sample_summary() {
  train::Summary summary;
  summary.result = "Succeeded";
  summary.accuracy = 0.9934;
  summary.loss = 0.0216;
  summary.epochs = 10;
  summary.steps = 4690;
  summary.samples_per_second = 15200;
  summary.scaling_efficiency = 0.964;
  summary.seconds = 49.4;
  summary.checkpoint = "checkpoints/step-00004690.g1";
  return summary;
}

inline train::CheckpointReport sample_checkpoint() {
  train::CheckpointReport report;
  report.step = 1600;
  report.path = "checkpoints/step-00001600.g1";
  report.bytes = 3448640;
  report.seconds = 0.031;
  return report;
}

}  // namespace coxswain::report
