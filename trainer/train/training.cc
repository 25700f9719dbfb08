#include "trainer/train/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <limits>
#include <utility>

#include "trainer/checkpoint/format.h"
#include "trainer/checkpoint/reader.h"
#include "trainer/data/dataset_identity.h"
#include "trainer/graph/models/models.h"
#include "trainer/train/agreement.h"
#include "trainer/train/all_reduce_strategy.h"
#include "trainer/train/model_state.h"
#include "trainer/train/resume.h"

namespace coxswain::train {

namespace {

constexpr double kReportSeconds = 1;  // a step is reported at least this often
constexpr std::int64_t kNoEnd = INT64_MAX / 2;
constexpr double kNoLoss = std::numeric_limits<double>::quiet_NaN();  // every step was skipped

bool has_momentum(const TrainOptions& options) {
  return options.schedule.momentum > 0 || options.schedule.cycle_momentum;
}

std::int64_t configured_global_batch(const TrainOptions& options, int world_size) {
  if (options.global_batch_size) return options.batch_size;
  return options.batch_size * world_size * options.accumulate;
}

// The peak rate for the batch in force: a worker's configured batch is the unit.
double scaled_lr(const TrainOptions& options, std::int64_t global_batch) {
  const double factor = static_cast<double>(global_batch) / static_cast<double>(options.batch_size);
  switch (options.lr_scaling) {
    case LrScaling::kNone:
      return options.schedule.lr;
    case LrScaling::kLinear:
      return options.schedule.lr * factor;
    case LrScaling::kSqrt:
      return options.schedule.lr * std::sqrt(factor);
  }
  return options.schedule.lr;
}

}  // namespace

Training::Training(const TrainOptions& options, Collaborators& with)
    : options_(options),
      with_(with),
      rank_(with.communicator->rank()),
      world_size_(with.communicator->size()),
      cut_{world_size_, options.virtual_shards, options.accumulate},
      slot_names_(optim::slot_names(options.rule, has_momentum(options))),
      graph_(graph::build_model(options.model, with.training.sample_shape(),
                                with.training.classes(), options.label_smoothing)),
      program_(
          graph::compile(graph_, options.batch_size, options.precision, graph::Mode::kTraining)),
      parameters_(with.backend.make_parameters(
          agreed_layout(*with.communicator, with.backend, program_, notes_),
          static_cast<int>(slot_names_.size()))),
      executables_(graph_, options.precision, with.backend, *parameters_),
      speed_(with.now) {}

// After an error sums may be under way: the communicator's thread writes into buffers that go with
// this object.
Training::~Training() { with_.communicator.reset(); }

void Training::start() {
  if (with_.test != nullptr) data::require_one_kind(with_.training, *with_.test);
  state_.world_size = world_size_;
  state_.global_batch = configured_global_batch(options_, world_size_);
  state_.attempt = options_.attempt;
  state_.fingerprint = with_.backend.fingerprint();
  state_.identity = options_.identity;
  state_.trajectory = options_.trajectory;
  state_.dataset = data::identity_of(with_.training);
  compare_fingerprints(*with_.communicator, state_.fingerprint, options_.virtual_shards > 0,
                       notes_);
  const bool new_run = leads() && begins_run();
  if (!resume(new_run)) initialise(program_, options_.seed, with_.backend, *parameters_);
  require_equal_weights(*with_.communicator, with_.backend, *parameters_);
  if (leads() && !options_.checkpoint.directory.empty()) {
    saver_ = std::make_unique<Saver>(options_.checkpoint,
                                     new_run ? std::optional(options_.job_uid) : std::nullopt,
                                     with_.saves, with_.observer, with_.now);
  }
  count_steps();
  prepare_executables();
  const std::int64_t model_bytes = parameters_->layout().size() * std::int64_t{sizeof(float)};
  strategy_ = std::make_unique<AllReduceStrategy>(
      *with_.communicator, with_.backend, *parameters_, options_.rule, cut_,
      options_.bucket_bytes > 0 ? options_.bucket_bytes
                                : measure_bucket_bytes(*with_.communicator, model_bytes),
      with_.now);
  if (leads()) with_.observer.started(describe());
}

// Without checkpoint.resume a later attempt goes on from the run that its own job began. Where an
// earlier one died before it could, the directory holds runs of other jobs alone.
bool Training::begins_run() const {
  const CheckpointOptions& from = options_.checkpoint;
  if (from.resume || from.directory.empty()) return false;
  if (options_.job_uid.empty()) return options_.attempt == 0;
  return checkpoint::job_of_last_run(from.directory) != options_.job_uid;
}

// Rank 0 reads and verifies; the others, which may not have the volume, get what it read.
bool Training::resume(bool new_run) {
  const CheckpointOptions& from = options_.checkpoint;
  std::optional<checkpoint::Loaded> loaded;
  if (leads() && !new_run && !from.directory.empty()) {
    loaded = checkpoint::load_latest(
        from.directory, from.resume ? checkpoint::Runs::kAll : checkpoint::Runs::kLast);
  }
  const std::string text = broadcast_text(
      *with_.communicator, loaded.has_value() ? checkpoint::encode(loaded->contents.state) : "");
  if (text.empty()) return false;
  ResumePlan plan = plan_resume(checkpoint::decode_state(text, "rank 0's state"), options_,
                                {.world_size = world_size_,
                                 .global_batch = state_.global_batch,
                                 .fingerprint = state_.fingerprint,
                                 .dataset = state_.dataset});
  state_ = std::move(plan.state);
  if (leads()) {
    for (const std::string& refused : loaded->refused) notes_.push_back("passed over " + refused);
    restore(loaded->contents, with_.backend, *parameters_, slot_names_);
    resumed_from_ = loaded->path.string();
  }
  notes_.insert(notes_.end(), plan.notes.begin(), plan.notes.end());
  broadcast_parameters(*with_.communicator, with_.backend, *parameters_);
  return true;
}

void Training::count_steps() {
  schedule_ = options_.schedule;
  schedule_.lr = static_cast<float>(scaled_lr(options_, state_.global_batch));
  const data::SamplerOptions samples = sampler();
  steps_per_epoch_ = data::steps_of(samples, 1);
  if (steps_per_epoch_ == 0) {
    throw Error(
        ExitCode::kBadInput,
        fmt::format(
            "[data] {} training samples are too few for a global batch of {} on {} ranks: lower "
            "batchSize, or lastBatch: keep",
            with_.training.size(), state_.global_batch, world_size_));
  }
  const std::int64_t largest_step = std::min(state_.global_batch, with_.training.size());
  if (largest_step < world_size_) {
    notes_.push_back(fmt::format("steps of {} samples leave {} of {} ranks without work",
                                 largest_step, world_size_ - largest_step, world_size_));
  }
  total_steps_ = options_.steps.value_or(kNoEnd);
  if (options_.epochs.has_value()) {
    const std::int64_t epochs = std::max<std::int64_t>(0, *options_.epochs - state_.epoch);
    total_steps_ = std::min(total_steps_, state_.step + data::steps_of(samples, epochs, place()));
  }
  state_.total_steps = total_steps_;
  const std::int64_t behind =
      data::steps_of(samples, state_.epoch + 1) - data::steps_of(samples, 1, place());
  steps_ahead_ = behind - state_.step;
  already_complete_ = state_.finished && done();
  state_.finished = false;
  if (already_complete_) {
    notes_.push_back(fmt::format(
        "already complete at epoch {}; raise epochs, or checkpoint.resume: false", state_.epoch));
  }
}

void Training::prepare_executables() {
  const data::EpochOrder order(sampler(), state_.epoch, place());
  if (!already_complete_) {
    for (const std::int64_t rows : batch_sizes(cut_, order, rank_)) {
      executables_.get(graph::Mode::kTraining, rows);
    }
  }
  if (with_.test != nullptr) executables_.get(graph::Mode::kEvaluation, evaluation_batch());
  const std::int64_t last_epoch = options_.epochs.value_or(INT64_MAX);
  loader_ = std::make_unique<data::DataLoader>(
      with_.training, data::LoaderOptions{options_.preprocessing, true, options_.seed},
      BatchSource(sampler(), cut_, rank_, {state_.epoch, place()}, last_epoch));
}

RunInfo Training::describe() const {
  RunInfo info;
  info.model = options_.model;
  info.parameters = parameters_->layout().parameter_count();
  info.multiply_accumulates = graph::multiply_accumulates(program_.graph);
  info.rank = rank_;
  info.world_size = world_size_;
  info.threads = options_.threads;
  info.training_samples = with_.training.size();
  info.test_samples = with_.test == nullptr ? 0 : with_.test->size();
  info.epochs = options_.epochs.value_or(0);
  info.total_steps = total_steps_;
  info.steps_per_epoch = steps_per_epoch_;
  info.global_batch = state_.global_batch;
  info.lr = schedule_.lr;
  info.fingerprint = state_.fingerprint;
  info.notes = notes_;
  info.first_step = state_.step;
  info.epoch = complete() && state_.samples_in_epoch == 0 ? state_.epoch : state_.epoch + 1;
  info.resumed_from = resumed_from_;
  return info;
}

// By the place in the data, whatever the size of the steps that led there.
bool Training::complete() const {
  return (options_.steps.has_value() && state_.step >= *options_.steps) ||
         (options_.epochs.has_value() && state_.epoch >= *options_.epochs);
}

bool Training::done() const { return stopping_ || complete(); }

// No more is rolled over than there was, whatever a file says.
data::EpochPlace Training::place() const {
  return {.rolled_over = std::min(state_.rolled_over, state_.epoch * with_.training.size()),
          .done = state_.samples_in_epoch};
}

void Training::run_epoch() {
  speed_.start_epoch();
  const double waited_before = loader_->seconds_waited();
  const data::EpochOrder order(sampler(), state_.epoch, place());
  std::int64_t step = 0;
  for (; step < order.steps() && !done(); ++step) run_step(order, step);
  speed_.finish_epoch();
  if (step < order.steps() || (stopping_ && state_.step < total_steps_)) return;
  finish_epoch(loader_->seconds_waited() - waited_before);
  state_.epoch += 1;
  state_.samples_in_epoch = 0;
  state_.rolled_over = order.next().rolled_over;
  state_.epoch_loss_sum = 0;
  state_.epoch_correct = 0;
  state_.epoch_samples = 0;
}

void Training::run_step(const data::EpochOrder& order, std::int64_t step) {
  const StepPlan plan = plan_step(cut_, order, step, rank_);
  const double divisor = options_.divide_by_count ? static_cast<double>(plan.global_count) : 1;
  strategy_->begin(plan);
  for (const MicroBatch& micro : plan.micro_batches) run_micro_batch(micro, divisor);
  fail_here(Phase::kReduce);
  const backend::ControlSums sums = strategy_->finish_step(learning_rate());
  fail_here(Phase::kUpdate);
  executables_.parameters_changed();
  state_.step += 1;
  state_.samples_in_epoch += plan.global_count;
  if (sums.updated) {
    state_.skipped_in_a_row = 0;
    state_.update_count += 1;
    state_.epoch_loss_sum += sums.loss;
    state_.epoch_correct += static_cast<std::int64_t>(sums.correct);
    state_.epoch_samples += static_cast<std::int64_t>(sums.samples);
  } else {
    count_skipped();
  }
  stopping_ = sums.stop_requests > 0;
  speed_.add(plan.global_count, sums.seconds_waiting / world_size_);
  if (!leads()) return;
  if (sums.updated) report_step(sums);
  if (!stopping_) save_if_due();
}

void Training::run_micro_batch(const MicroBatch& micro, double divisor) {
  fail_here(Phase::kLoad);
  const bool stop = with_.stop.load(std::memory_order_relaxed);
  const data::HostBatch& rows = *loader_->next();
  if (micro.sample_ids.empty()) {
    parameters_->memory().fill(parameters_->gradients(), 0);
    strategy_->begin_micro_batch(stop);
  } else {
    backend::Executable& executable =
        executables_.get(graph::Mode::kTraining, static_cast<std::int64_t>(rows.labels.size()));
    strategy_->begin_micro_batch(stop);
    fail_here(Phase::kForward);
    backend::forward(executable, {rows.images, rows.labels, rows.sample_ids, options_.seed,
                                  rows.epoch, rows.valid, divisor});
    executable.write_sums(parameters_->gradients(parameters_->layout().control()));
    fail_here(Phase::kBackward);
    backend::backward(executable, [&](int complete) { strategy_->gradients_ready(complete); });
  }
  strategy_->finish_micro_batch();
}

// A step whose loss or gradients are not finite changes nothing, on all ranks alike: they judge the
// same sums.
void Training::count_skipped() {
  state_.skipped_in_a_row += 1;
  if (state_.skipped_in_a_row > options_.max_skipped) {
    throw Error(ExitCode::kNotFinite,
                fmt::format(
                    "[train] loss or gradients were not finite in {} steps in a row up to step {}: "
                    "lower optimizer.lr, add warm-up, or raise nonFinite.skip",
                    state_.skipped_in_a_row, state_.step));
  }
  if (leads()) {
    with_.observer.warned(
        fmt::format("step {} skipped: loss or gradients are not finite", state_.step));
  }
}

void Training::save_if_due() {
  if (!saver_) return;
  saver_->poll();
  if (!saver_->due(state_.step) || state_.step >= total_steps_) return;
  saver_->start(take_snapshot());
  fail_here(Phase::kSave);
}

void Training::report_step(const backend::ControlSums& sums) {
  const bool due = state_.step % options_.report_every_steps == 0 || state_.step == 1 ||
                   speed_.recent().seconds >= kReportSeconds;
  if (!due) return;
  StepReport report;
  report.step = state_.step;
  report.epoch = state_.epoch + 1;
  report.loss = sums.loss / std::max(1.0, sums.samples);
  report.accuracy = static_cast<double>(state_.epoch_correct) /
                    static_cast<double>(std::max<std::int64_t>(1, state_.epoch_samples));
  report.samples_per_second = speed_.recent().samples_per_second();
  report.seconds_left = static_cast<double>(total_steps_ - state_.step) *
                        static_cast<double>(state_.global_batch) /
                        std::max(1e-9, report.samples_per_second);
  report.lr = learning_rate().lr;
  report.scaling_efficiency = speed_.epoch().scaling_efficiency();
  with_.observer.stepped(report);
  if (speed_.recent().seconds >= kReportSeconds) speed_.mark();
}

void Training::finish_epoch(double seconds_waited_for_data) {
  const std::int64_t epoch = state_.epoch + 1;
  const bool evaluated = with_.test != nullptr && options_.evaluate_every_epochs > 0 &&
                         epoch % options_.evaluate_every_epochs == 0;
  EpochReport report;
  report.epoch = epoch;
  const auto scored = static_cast<double>(std::max<std::int64_t>(1, state_.epoch_samples));
  report.training_loss = state_.epoch_samples > 0 ? state_.epoch_loss_sum / scored : kNoLoss;
  report.training_accuracy = static_cast<double>(state_.epoch_correct) / scored;
  const Stretch steps = speed_.epoch();
  report.seconds = steps.seconds;
  report.samples_per_second = steps.samples_per_second();
  report.input_bound = seconds_waited_for_data / std::max(1e-9, steps.seconds);
  report.scaling_efficiency = steps.scaling_efficiency();
  if (evaluated && !stopping_) {
    evaluate_now();
    report.evaluated = true;
    report.loss = scores_->loss;
    report.accuracy = scores_->accuracy;
    report.top5 = scores_->top5;
  }
  if (leads()) with_.observer.finished_epoch(report);
}

void Training::evaluate_now() {
  fail_here(Phase::kEvaluate);
  scores_ = evaluate(executables_, *with_.test, {evaluation_batch(), options_.preprocessing},
                     *with_.communicator, cut_);
  scored_step_ = state_.step;
  state_.last_accuracy = scores_->accuracy;
  state_.last_loss = scores_->loss;
}

// A run that ends in such steps has not learned what it was to learn, however good its weights were
// before. All ranks throw: they judge the same sums.
void Training::require_finite_end() const {
  const bool scored = scores_.has_value() && !std::isfinite(scores_->loss);
  if (!scored && state_.skipped_in_a_row == 0) return;
  throw Error(ExitCode::kNotFinite,
              fmt::format("[train] the run ended after step {} with {} that is not finite: lower "
                          "optimizer.lr, or add warm-up",
                          state_.step, scored ? "a test loss" : "a training loss or gradient"));
}

Result Training::finish() {
  const bool is_complete = complete();
  if (is_complete && with_.test != nullptr && scored_step_ != state_.step) evaluate_now();
  if (is_complete) require_finite_end();
  strategy_.reset();
  state_.finished = is_complete;
  // All ranks have agreed on this state: it is saved before a peer that dies in the end can take it
  // along.
  if (saver_ && !already_complete_) {
    const SaveGate::Saving saving(with_.saves);
    saver_->save_now(take_snapshot());
  }
  with_.communicator->finish();
  with_.communicator.reset();
  const Result result = is_complete ? Result::kSucceeded : Result::kSaved;
  if (!leads()) return result;
  Summary summary;
  summary.result = is_complete ? "Succeeded" : "Saved";
  if (scores_.has_value()) summary.accuracy = scores_->accuracy;
  if (scores_.has_value()) summary.loss = scores_->loss;
  summary.epochs = state_.epoch;
  summary.steps = state_.step;
  summary.samples_per_second = speed_.overall().samples_per_second();
  summary.scaling_efficiency = speed_.overall().scaling_efficiency();
  summary.checkpoint = saver_ && !saver_->newest().empty() ? saver_->newest() : resumed_from_;
  with_.observer.finished(summary);
  return result;
}

std::function<checkpoint::Contents()> Training::take_snapshot() {
  return snapshot(state_, with_.backend, *parameters_, slot_names_);
}

data::SamplerOptions Training::sampler() const {
  return {with_.training.size(), state_.global_batch, world_size_,
          options_.split,        options_.last_batch, options_.seed};
}

std::int64_t Training::evaluation_batch() const {
  return options_.evaluation_batch > 0 ? options_.evaluation_batch : options_.batch_size;
}

optim::LearningRate Training::learning_rate() const {
  return optim::learning_rate(schedule_, state_.step + steps_ahead_, total_steps_ + steps_ahead_,
                              steps_per_epoch_);
}

void Training::fail_here(Phase phase) const {
  const auto& point = options_.fail_point;
  if (!point.has_value() || options_.attempt != 0) return;
  if (point->rank == rank_ && point->step == state_.step && point->phase == phase)
    std::raise(SIGKILL);
}

}  // namespace coxswain::train
