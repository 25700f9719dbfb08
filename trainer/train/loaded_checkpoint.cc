#include "trainer/train/loaded_checkpoint.h"

#include <fmt/format.h>

#include "trainer/train/start_up.h"

namespace coxswain::train {

namespace {

// How many, where the last of them has just ended; nothing within an epoch.
std::optional<std::int64_t> epochs_ended(const TrainOptions& options, const data::Dataset& training,
                                         const checkpoint::State& state) {
  if (state.samples_in_epoch == 0) return state.epoch;
  if (state.global_batch < 1) return std::nullopt;  // whatever a file says
  const bool is_whole = order_from(options, state, training).steps() == 0;
  return is_whole ? std::optional(state.epoch + 1) : std::nullopt;
}

checkpoint::Loaded load_named(const TrainOptions& options, const data::Dataset& training) {
  const CheckpointOptions& from = options.checkpoint;
  if (!from.from_path.empty()) return checkpoint::load_from(from.from_path);
  const std::string what = from.from_epoch ? fmt::format("the end of epoch {}", *from.from_epoch)
                                           : fmt::format("step {}", *from.from_step);
  if (from.directory.empty()) {
    throw Error(ExitCode::kBadInput,
                fmt::format("[checkpoint] from {}: give checkpoint.path, where to look", what));
  }
  auto loaded = checkpoint::load_where(from.directory, [&](const checkpoint::State& state) {
    return from.from_epoch ? epochs_ended(options, training, state) == *from.from_epoch
                           : state.step == *from.from_step;
  });
  if (!loaded) {
    throw Error(ExitCode::kBadInput,
                fmt::format("[checkpoint] {} holds no whole checkpoint of {}: see "
                            "checkpoint.from and checkpoint.keepEpochs",
                            from.directory.string(), what));
  }
  return std::move(*loaded);
}

// A run that loses all it has done begins anew when somebody says so, not unasked.
[[noreturn]] void throw_lost(const std::filesystem::path& directory, const std::string& latest) {
  throw Error(
      ExitCode::kBadInput,
      fmt::format("[checkpoint] {0}: LATEST names {1}, and no checkpoint is there any more: "
                  "restore one, or to begin anew remove {0}/LATEST or set "
                  "checkpoint.resume: false",
                  directory.string(), latest));
}

}  // namespace

bool begins_run(const TrainOptions& options) {
  const CheckpointOptions& from = options.checkpoint;
  if ((from.resume && !from.begins_from_one()) || from.directory.empty()) return false;
  if (options.job_uid.empty()) return options.attempt == 0;
  return checkpoint::job_of_last_run(from.directory) != options.job_uid;
}

std::optional<checkpoint::Loaded> load_checkpoint(const TrainOptions& options,
                                                  const data::Dataset& training, bool new_run,
                                                  std::vector<std::string>& notes) {
  const CheckpointOptions& from = options.checkpoint;
  if (!new_run && !from.directory.empty()) {
    const bool of_any = from.resume && !from.begins_from_one();
    const auto runs = of_any ? checkpoint::Runs::kAll : checkpoint::Runs::kLast;
    auto loaded = checkpoint::load_latest(from.directory, runs);
    const auto lost = checkpoint::lost_latest(from.directory, runs);
    if (lost && !loaded) throw_lost(from.directory, *lost);
    if (lost)
      loaded->refused.insert(loaded->refused.begin(), *lost + ": gone, though LATEST names it");
    if (loaded) return loaded;
    if (options.attempt > 0)
      notes.push_back(fmt::format("attempt {} finds no checkpoint of this run in {}",
                                  options.attempt, from.directory.string()));
  }
  // A later attempt whose run has saved nothing yet begins there again.
  if (from.begins_from_one()) return load_named(options, training);
  return std::nullopt;
}

}  // namespace coxswain::train
