#include "trainer/train/resume.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "trainer/contract/error.h"
#include "trainer/contract/printable.h"
#include "trainer/train/push_judge.h"

namespace coxswain::train {

namespace {

using Keys = std::map<std::string, std::string>;

constexpr const char* kWatchedKey = "earlyStopping.metric";
constexpr const char* kLossScaleKey = "lossScale";

std::string value_of(const Keys& keys, const std::string& key) {
  const auto found = keys.find(key);
  return found == keys.end() ? "(default)" : found->second;
}

// A file's value may hold anything, and a list be long.
std::string shown(const std::string& value) {
  constexpr std::size_t kMostCharacters = 80;
  return printable(value, kMostCharacters);
}

// A key that is not there is one that the version which saved did not know.
bool is_changed(const Keys& saved, const std::string& key, const std::string& value) {
  return saved.contains(key) && value_of(saved, key) != value;
}

void refuse_changed_identity(const Keys& saved, const Keys& now) {
  for (const auto& [key, value] : now) {
    if (!is_changed(saved, key, value)) continue;
    throw Error(
        ExitCode::kBadInput,
        fmt::format(
            "[checkpoint] {} was {} when it was saved and is {} now: restore it, use another "
            "checkpoint directory, or set checkpoint.resume: false",
            key, shown(value_of(saved, key)), shown(value)));
  }
}

bool note_changed_trajectory(const Keys& saved, const Keys& now, std::vector<std::string>& notes) {
  bool changed = false;
  for (const auto& [key, value] : now) {
    if (!is_changed(saved, key, value)) continue;
    notes.push_back(fmt::format("{} was {} and is {} now: continues on another trajectory", key,
                                shown(value_of(saved, key)), shown(value)));
    changed = true;
  }
  return changed;
}

// A checkpoint of an older program knows less of its dataset, or nothing: that is not compared.
bool note_changed_dataset(const Keys& saved, const Keys& now, std::vector<std::string>& notes) {
  if (saved.empty()) return false;
  if (value_of(saved, "classes") != value_of(now, "classes")) {
    throw Error(ExitCode::kBadInput,
                fmt::format("[checkpoint] the training set had {} classes when it was saved and "
                            "has {} now: restore it, use another checkpoint directory, or set "
                            "checkpoint.resume: false",
                            value_of(saved, "classes"), value_of(now, "classes")));
  }
  bool changed = false;
  for (const auto& [key, value] : now) {
    if (!is_changed(saved, key, value)) continue;
    notes.push_back(fmt::format("the training set is another one: {} was {} and is {} now", key,
                                shown(value_of(saved, key)), value));
    changed = true;
  }
  return changed;
}

// Pushes stay exact as long as the codec that did not pay is the one that is asked for.
bool stays_exact(const checkpoint::State& saved, const TrainOptions& options) {
  return saved.pushes_exactly && !options.fixed_order &&
         std::ranges::none_of(options.trajectory, [&](const auto& entry) {
           const bool is_codec = entry.first.starts_with("communication.compression") ||
                                 entry.first == "communication.partial";
           return is_codec && is_changed(saved.trajectory, entry.first, entry.second);
         });
}

// Keys that say how large a batch is: once one is set anew, the batch is what is asked for now.
bool asks_for_the_same_batch(const Keys& saved, const Keys& now) {
  return std::ranges::all_of(
      std::initializer_list{"batchSize", "batchSemantics", "accumulate"},
      [&](const char* key) { return value_of(saved, key) == value_of(now, key); });
}

}  // namespace

void require_same_classes(const std::vector<std::string>& saved,
                          const std::vector<std::string>& now) {
  if (saved.empty() || now.empty()) return;
  const auto [was, is] = std::ranges::mismatch(saved, now);
  if (was == saved.end() && is == now.end()) return;
  const auto name = [](const auto& at, const auto& end) {
    return at == end ? std::string("none") : shown(*at);
  };
  throw Error(
      ExitCode::kBadInput,
      fmt::format("[checkpoint] class {} was {} when it was saved and is {} now: the data's "
                  "folders must have the names they had, or use another checkpoint",
                  was - saved.begin(), name(was, saved.end()), name(is, now.end())));
}

ResumePlan plan_resume(const checkpoint::State& saved, const TrainOptions& options,
                       const ThisStart& now) {
  refuse_changed_identity(saved.identity, options.identity);
  require_same_classes(saved.class_names, now.class_names);
  ResumePlan plan{saved, {}};
  const bool other_data = note_changed_dataset(saved.dataset, now.dataset, plan.notes);
  const bool changed =
      note_changed_trajectory(saved.trajectory, options.trajectory, plan.notes) || other_data;
  const bool resized = saved.world_size != now.world_size;
  const bool keep_batch =
      options.keep_global_batch && asks_for_the_same_batch(saved.trajectory, options.trajectory);
  plan.state.world_size = now.world_size;
  plan.state.global_batch = keep_batch ? saved.global_batch : now.global_batch;
  plan.state.fingerprint = now.fingerprint;
  plan.state.identity = options.identity;
  plan.state.trajectory = options.trajectory;
  plan.state.dataset = now.dataset;
  plan.state.class_names = now.class_names;
  plan.state.attempt = options.attempt;
  plan.state.pushes_exactly = stays_exact(saved, options);
  if (is_changed(saved.trajectory, kWatchedKey, value_of(options.trajectory, kWatchedKey))) {
    plan.state.watched_best = 0;
    plan.state.watched_epoch = 0;
    plan.state.without_better = 0;
  }
  const bool same_scaling =
      value_of(saved.trajectory, kLossScaleKey) == value_of(options.trajectory, kLossScaleKey);
  if (!same_scaling || !options.loss_scaling.dynamic) {
    plan.state.loss_scale = options.loss_scaling.initial;
    plan.state.clean_steps = 0;
  }
  if (plan.state.pushes_exactly)
    plan.notes.push_back(
        fmt::format("{} did not pay: gradients are still sent exactly", key_of(options.codec)));
  if (resized) {
    plan.notes.push_back(fmt::format("{} ranks instead of {}: global batch {}", now.world_size,
                                     saved.world_size, plan.state.global_batch));
  } else if (plan.state.global_batch != now.global_batch) {
    plan.notes.push_back(
        fmt::format("keeps the global batch of the first start, {}: it would be "
                    "{} on {} ranks",
                    saved.global_batch, now.global_batch, now.world_size));
  }
  if (resized && options.split != Split::kShuffle && saved.samples_in_epoch > 0) {
    plan.state.epoch += 1;
    plan.state.samples_in_epoch = 0;
    plan.state.rolled_over = 0;
    plan.state.epoch_loss_sum = 0;
    plan.state.epoch_correct = 0;
    plan.state.epoch_samples = 0;
    plan.notes.push_back("the split depends on the number of ranks: continues at the next epoch");
  }
  if (!options.pretrained.empty())
    plan.notes.push_back(fmt::format("goes on with the checkpoint's weights, not with those of {}",
                                     options.pretrained.string()));
  const bool same_numbers = options.fixed_order && saved.fingerprint == now.fingerprint &&
                            !changed && plan.state.global_batch == saved.global_batch &&
                            (!resized || options.virtual_shards > 0);
  plan.notes.push_back(fmt::format("resumed after step {}: continues {}", saved.step,
                                   same_numbers ? "bit for bit" : "not bit for bit"));
  return plan;
}

}  // namespace coxswain::train
