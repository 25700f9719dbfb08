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

}  // namespace

bool begins_run(const TrainOptions& options) {
  const CheckpointOptions& from = options.checkpoint;
  if ((from.resume && !from.begins_from_one()) || from.directory.empty()) return false;
  if (options.job_uid.empty()) return options.attempt == 0;
  return checkpoint::job_of_last_run(from.directory) != options.job_uid;
}

std::optional<checkpoint::Loaded> load_checkpoint(const TrainOptions& options,
                                                  const data::Dataset& training, bool new_run) {
  const CheckpointOptions& from = options.checkpoint;
  if (!new_run && !from.directory.empty()) {
    const bool of_any = from.resume && !from.begins_from_one();
    auto loaded = checkpoint::load_latest(
        from.directory, of_any ? checkpoint::Runs::kAll : checkpoint::Runs::kLast);
    if (loaded) return loaded;
  }
  // A later attempt whose run has saved nothing yet begins there again.
  if (from.begins_from_one()) return load_named(options, training);
  return std::nullopt;
}

}  // namespace coxswain::train
