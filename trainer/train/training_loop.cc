#include "trainer/train/training_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <fstream>
#include <limits>
#include <span>
#include <utility>

#include "trainer/train/averaged_weights.h"
#include "trainer/train/best_epoch.h"
#include "trainer/train/finite.h"
#include "trainer/train/micro_batch.h"
#include "trainer/train/rank_pulse.h"
#include "trainer/train/reporter.h"
#include "trainer/train/start_up.h"

namespace coxswain::train {

namespace {

// Resource. One training under way on one rank. `state` in it is the truth as far as outcomes are
// known; up to the strategy's lag of steps after it are begun.
class Training {
 public:
  Training(const TrainOptions& options, Collaborators& with)
      : options_(options),
        with_(with),
        rank_(with.communicator->rank()),
        now_(start_up(options, with)),
        reporter_(leads() ? &with.observer : nullptr, reporter_options(options, now_.info),
                  with.now),
        pulse_({rank_, with.communicator->size()}, with.now) {
    now_.loader = make_loader(
        options, now_.timed_training ? *now_.timed_training : with.training,
        BatchSource(sampler_of(options, state(), with.training), now_.cut, rank_,
                    position_of(state(), with.training), options.epochs.value_or(kNever)),
        data::LoaderOptions{}.depth, now_.skipped.get());
    if (leads()) with_.observer.started(now_.info);
  }

  // After an error sums may be under way: the communicator's thread writes into parameters that go
  // with this object.
  ~Training() { with_.communicator.reset(); }
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  // Until the end of the data, or the step at which all ranks stop.
  void run() {
    while (!stopping_ && !is_complete(options_, state())) run_epoch();
  }

  // Evaluates what is complete, saves on rank 0, then leaves the communicator.
  Result finish();

 private:
  // A save of a step whose outcome is not known yet.
  struct Save {
    std::int64_t step;
    std::function<checkpoint::Contents()> tensors;
  };

  void run_epoch();
  void run_step(const data::EpochOrder& order, std::int64_t step);
  void hear();
  std::optional<double> take_scale(const backend::ControlSums& sums);
  void ask_for_save_if_due();
  void save_if_due();
  void save_together();
  void save_best();
  bool saves_at_end();
  void start_save_if_known();
  void evaluate_now();
  void tell_weights();
  void tell_timeline();

  std::function<checkpoint::Contents()> with_state(std::function<checkpoint::Contents()> tensors,
                                                   const checkpoint::Keep& keep);
  checkpoint::State& state() { return now_.state; }
  const checkpoint::State& state() const { return now_.state; }
  std::int64_t begun() const { return state().step + std::ssize(unheard_); }
  bool ends_after_begun() const {
    return begun() >= std::min(stop_after_, options_.steps.value_or(kNever));
  }
  void fail_here(Phase phase) const { train::fail_here(options_, {rank_, begun()}, phase); }
  bool leads() const { return rank_ == 0; }
  std::int64_t epoch_saved() const { return saves_epoch() ? epochs_ended_ : 0; }
  bool saves_epoch() const { return due_by_epochs(options_.checkpoint, epochs_ended_); }

  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  const TrainOptions& options_;
  Collaborators& with_;
  const int rank_;
  Started now_;
  Reporter reporter_;
  RankPulse pulse_;
  std::int64_t samples_here_ = 0;  // of this rank

  std::deque<std::int64_t> unheard_;  // samples of each step that is begun, but not told of
  std::int64_t epochs_ended_ = 0;     // complete with the newest step begun; 0: it ends none
  std::int64_t stop_after_ = kNever;  // the step at which all ranks stop
  bool stopping_ = false;             // it was reached, or the end of an epoch before it
  std::optional<Save> save_;
  bool save_agreed_ = false;      // after this step, by all ranks
  std::optional<Scores> scores_;  // of the newest evaluation
  std::int64_t scored_step_ = -1;
  bool timeline_told_ = false;
  bool is_best_ = false;  // by that evaluation, and not saved yet
};

void Training::run_epoch() {
  reporter_.start_epoch();
  const double waited_before = now_.loader->seconds_waited();
  const data::EpochOrder order = order_from(options_, state(), with_.training);
  std::int64_t step = 0;
  for (; step < order.steps() && !ends_after_begun(); ++step) {
    run_step(order, step);
    if (now_.timeline && now_.timeline->ends_with(begun())) tell_timeline();
  }
  while (!unheard_.empty()) hear();
  stopping_ = stop_after_ != kNever;
  reporter_.stop_clock();
  if (step < order.steps() || (stopping_ && state().step < now_.course.total_steps)) return;
  const bool evaluated = with_.test != nullptr && options_.evaluate_every_epochs > 0 &&
                         (state().epoch + 1) % options_.evaluate_every_epochs == 0 && !stopping_;
  if (evaluated) {
    evaluate_now();
    count_evaluation(options_.early_stopping, *scores_, state().epoch + 1, state());
  }
  reporter_.finished_epoch(state(), now_.loader->seconds_waited() - waited_before,
                           evaluated ? scores_ : std::nullopt);
  if (options_.tells_weights) tell_weights();
  advance_epoch(state(), order);
  if (is_best_ && !is_complete(options_, state())) save_best();
}

void Training::tell_weights() {
  const bool takes_part = leads() || now_.strategy->snapshots_together();
  const auto tensors = takes_part ? now_.strategy->snapshot() : nullptr;
  if (!leads()) return;
  const checkpoint::Contents contents = tensors();
  with_.observer.finished_epoch_with({state().step, contents.model});
}

// After the evaluation that found it, on all ranks: never skipped, as the end of an epoch is not.
void Training::save_best() {
  is_best_ = false;
  auto tensors =
      leads() || now_.strategy->snapshots_together() ? now_.strategy->snapshot() : nullptr;
  if (!now_.saver) return;
  now_.saver->wait();
  now_.saver->poll();
  now_.saver->start(with_state(std::move(tensors), {.best = true}));
}

void Training::run_step(const data::EpochOrder& order, std::int64_t step) {
  const StepPlan plan = plan_step(now_.cut, order, step, rank_);
  Timeline* const timeline = now_.timeline.get();
  if (timeline != nullptr) timeline->begin_step(begun() + 1);
  const Timed timed(timeline, Part::kStep);
  const double count = options_.divide_by_count ? static_cast<double>(plan.global_count) : 1;
  epochs_ended_ = step + 1 == order.steps() ? state().epoch + 1 : 0;
  ask_for_save_if_due();
  now_.strategy->tell(pulse_.take(begun(), samples_here_, now_.loader->seconds_waited()));
  now_.strategy->begin(plan);
  for (const MicroBatch& micro : plan.micro_batches) {
    const bool stop = with_.stop.load(std::memory_order_relaxed);
    run_micro_batch(options_, now_, micro, count, stop, {rank_, begun()});
  }
  fail_here(Phase::kReduce);
  {
    const Timed finish(timeline, Part::kFinish, "sums and update");
    now_.strategy->finish_step();
  }
  fail_here(Phase::kUpdate);
  now_.executables->parameters_changed();
  for (const MicroBatch& micro : plan.micro_batches) samples_here_ += std::ssize(micro.sample_ids);
  unheard_.push_back(plan.global_count);
  // An earlier save whose outcome is not in yet would take the place of one that is never skipped.
  const std::int64_t lag = saves_epoch() ? 0 : now_.strategy->lag();
  while (std::ssize(unheard_) > lag) hear();
  save_if_due();
}

// Takes the next outcome into the state. All ranks hear the same after the same step.
void Training::hear() {
  StepOutcome outcome = now_.strategy->outcome();
  const backend::ControlSums& sums = outcome.sums;
  const std::int64_t samples = unheard_.front();
  unheard_.pop_front();
  state().step += 1;
  state().samples_in_epoch += samples;
  if (sums.updated) {
    state().skipped_in_a_row = 0;
    state().update_count += 1;
    state().epoch_loss_sum += sums.loss;
    state().epoch_correct += static_cast<std::int64_t>(sums.correct);
    state().epoch_samples += static_cast<std::int64_t>(sums.samples);
  }
  if (const auto reduced = take_scale(sums)) {
    outcome.reduced_scale = reduced;
  } else if (!sums.updated) {
    require_few_skipped(++state().skipped_in_a_row, options_.max_skipped, state().step);
  }
  if (sums.stop_requests > 0) {
    stop_after_ = std::min(stop_after_, state().step + now_.strategy->lag());
  }
  save_agreed_ = sums.save;
  state().pushes_exactly = state().pushes_exactly || sums.push_exactly;
  reporter_.stepped(state(), outcome, samples);
  start_save_if_known();
}

// The scale of the step after; told where a step was skipped for nothing but too great a one.
std::optional<double> Training::take_scale(const backend::ControlSums& sums) {
  const LossScale now{state().loss_scale, state().clean_steps};
  const LossScale next = next_scale(options_.loss_scaling, now, sums.updated);
  state().loss_scale = next.scale;
  state().clean_steps = next.clean_steps;
  if (sums.updated || sums.not_finite > 0 || next.scale == now.scale) return std::nullopt;
  return next.scale;
}

// On all ranks, once. What can't be written is told, and ends nothing.
void Training::tell_timeline() {
  const std::string text =
      now_.timeline->has_spans() ? now_.timeline->gather(*with_.communicator) : "";
  now_.timeline->begin_step(kNever);
  timeline_told_ = true;
  if (!leads()) return;
  const std::filesystem::path& file = options_.timeline.file;
  if (text.empty())
    return with_.observer.warned(fmt::format("report.timeline: no step of {}-{} was run",
                                             options_.timeline.first_step,
                                             options_.timeline.last_step));
  std::ofstream out(file, std::ios::binary);
  out << text;
  out.close();
  if (!out) with_.observer.warned(fmt::format("{}: can't be written: no timeline", file.string()));
}

// Of the step that is to begin.
void Training::ask_for_save_if_due() {
  if (!now_.saver || !now_.strategy->snapshots_together()) return;
  const std::int64_t step = begun() + 1;
  if (!now_.saver->due(step, epochs_ended_) || step >= now_.course.total_steps) return;
  now_.strategy->ask_for_snapshot();
}

// The tensors are taken now, before another step is begun.
void Training::save_if_due() {
  if (stop_after_ != kNever) return;
  if (now_.strategy->snapshots_together()) return save_together();
  if (!now_.saver) return;
  now_.saver->poll();
  if (save_ || begun() >= now_.course.total_steps) return;
  if (!now_.saver->due(begun(), epochs_ended_)) return;
  const Timed timed(now_.timeline.get(), Part::kSave);
  save_ = Save{begun(), now_.strategy->snapshot()};
  start_save_if_known();
}

void Training::save_together() {
  if (now_.saver) now_.saver->poll();
  if (!save_agreed_) return;
  auto tensors = now_.strategy->snapshot();
  if (!now_.saver) return;
  save_ = Save{begun(), std::move(tensors)};
  start_save_if_known();
}

void Training::start_save_if_known() {
  if (!save_ || save_->step != state().step) return;
  if (saves_epoch()) now_.saver->wait();
  now_.saver->start(with_state(std::move(save_->tensors), {.epoch = epoch_saved()}));
  save_.reset();
  fail_here(Phase::kSave);
}

std::function<checkpoint::Contents()> Training::with_state(
    std::function<checkpoint::Contents()> tensors, const checkpoint::Keep& keep) {
  return [tensors = std::move(tensors), at = state(), keep] {
    checkpoint::Contents contents = tensors();
    contents.state = at;
    contents.keep = keep;
    return contents;
  };
}

void Training::evaluate_now() {
  fail_here(Phase::kEvaluate);
  const AveragedWeights averaged(options_.rule, *now_.parameters, *now_.executables);
  scores_ = evaluate(*now_.executables, *with_.test,
                     {evaluation_batch(options_, *with_.test), evaluation_steps(options_),
                      options_.data_workers, now_.skipped.get()},
                     *with_.communicator, now_.cut);
  scored_step_ = state().step;
  state().last_accuracy = scores_->accuracy;
  state().last_loss = scores_->loss;
  is_best_ = take_best(options_.checkpoint, *scores_, state());
}

// As rank 0, which alone may have a directory, says where all are needed.
bool Training::saves_at_end() {
  bool saves = now_.saver != nullptr && !now_.already_complete;
  if (now_.strategy->snapshots_together())
    with_.communicator->broadcast(std::as_writable_bytes(std::span(&saves, 1)), 0);
  return saves;
}

Result Training::finish() {
  state().finished = is_complete(options_, state());
  if (state().finished) {
    if (with_.test != nullptr && scored_step_ != state().step) evaluate_now();
    require_finite_end(state(), scores_);
  }
  const bool saves = saves_at_end();
  const bool together = saves && now_.strategy->snapshots_together();
  auto tensors = together ? now_.strategy->snapshot() : nullptr;
  // All ranks have agreed on this state: it is saved before a peer that dies in the end can take it
  // along.
  if (saves && now_.saver) {
    const SaveGate::Saving saving(with_.saves);
    const bool ends_epoch =
        state().samples_in_epoch == 0 && due_by_epochs(options_.checkpoint, state().epoch);
    now_.saver->save_now(with_state(together ? std::move(tensors) : now_.strategy->snapshot(),
                                    {.epoch = ends_epoch ? state().epoch : 0, .best = is_best_}));
  }
  if (now_.timeline && !timeline_told_) tell_timeline();
  with_.communicator->finish();
  with_.communicator.reset();
  const bool saved = now_.saver && !now_.saver->newest().empty();
  if (leads()) tell_of_skipped(now_, with_.observer);
  if (leads() && !now_.already_complete && stops_early(options_.early_stopping, state()))
    with_.observer.warned(why_early(options_.early_stopping, state()));
  reporter_.finished(state(), scores_, saved ? now_.saver->newest() : now_.info.resumed_from);
  return state().finished ? Result::kSucceeded : Result::kSaved;
}

}  // namespace

Result train(const TrainOptions& options, Collaborators collaborators) {
  Training training(options, collaborators);
  training.run();
  return training.finish();
}

}  // namespace coxswain::train
