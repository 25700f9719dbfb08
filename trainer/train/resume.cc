#include "trainer/train/resume.h"

#include <fmt/format.h>

#include "trainer/contract/error.h"

namespace coxswain::train {

namespace {

using Keys = std::map<std::string, std::string>;

std::string value_of(const Keys& keys, const std::string& key) {
  const auto found = keys.find(key);
  return found == keys.end() ? "(default)" : found->second;
}

void refuse_changed_identity(const Keys& saved, const Keys& now) {
  for (const auto& [key, value] : now) {
    if (value_of(saved, key) == value) continue;
    throw Error(
        ExitCode::kBadInput,
        fmt::format(
            "[checkpoint] {} was {} when it was saved and is {} now: restore it, use another "
            "checkpoint directory, or set checkpoint.resume: false",
            key, value_of(saved, key), value));
  }
}

bool note_changed_trajectory(const Keys& saved, const Keys& now, std::vector<std::string>& notes) {
  bool changed = false;
  for (const auto& [key, value] : now) {
    if (value_of(saved, key) == value) continue;
    notes.push_back(fmt::format("{} was {} and is {} now: continues on another trajectory", key,
                                value_of(saved, key), value));
    changed = true;
  }
  return changed;
}

}  // namespace

ResumePlan plan_resume(const checkpoint::State& saved, const TrainOptions& options,
                       const ThisStart& now) {
  refuse_changed_identity(saved.identity, options.identity);
  ResumePlan plan{saved, {}};
  const bool changed = note_changed_trajectory(saved.trajectory, options.trajectory, plan.notes);
  const bool resized = saved.world_size != now.world_size;
  const bool keep_batch = resized && options.keep_global_batch && !changed;
  plan.state.world_size = now.world_size;
  plan.state.global_batch = keep_batch ? saved.global_batch : now.global_batch;
  plan.state.fingerprint = now.fingerprint;
  plan.state.identity = options.identity;
  plan.state.trajectory = options.trajectory;
  plan.state.attempt = options.attempt;
  if (resized) {
    plan.notes.push_back(fmt::format("{} ranks instead of {}: global batch {}", now.world_size,
                                     saved.world_size, plan.state.global_batch));
  }
  if (resized && options.split != data::Split::kShuffle && saved.samples_in_epoch > 0) {
    plan.state.epoch += 1;
    plan.state.samples_in_epoch = 0;
    plan.state.epoch_loss_sum = 0;
    plan.state.epoch_correct = 0;
    plan.state.epoch_samples = 0;
    plan.notes.push_back("the split depends on the number of ranks: continues at the next epoch");
  }
  const bool same_numbers =
      saved.fingerprint == now.fingerprint && !changed && (!resized || options.virtual_shards > 0);
  plan.notes.push_back(fmt::format("resumed after step {}: continues {}", saved.step,
                                   same_numbers ? "bit for bit" : "not bit for bit"));
  return plan;
}

}  // namespace coxswain::train
