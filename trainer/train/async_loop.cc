#include "trainer/train/async_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "trainer/checkpoint/format.h"
#include "trainer/train/async_strategy.h"
#include "trainer/train/best_epoch.h"
#include "trainer/train/finite.h"
#include "trainer/train/leased_batches.h"
#include "trainer/train/micro_batch.h"
#include "trainer/train/reporter.h"

namespace coxswain::train {

namespace {

constexpr std::chrono::seconds kLook{1};  // for a wish to stop
constexpr int kFirstWord = 5;             // looks
constexpr int kNextWord = 30;
constexpr int kLeases = 2;  // one is computed while the other one's batch is loaded
constexpr int kLoaderDepth = 1;

// Each worker takes whole steps, of its own batch, whatever the job's size.
TrainOptions alone(TrainOptions options) {
  options.fixed_order = false;
  options.virtual_shards = 0;
  options.keep_global_batch = false;
  return options;
}

// Resource. Asynchronous training under way on one worker. On worker 0 `base_` is the truth as of
// the last cut.
class AsyncLoop {
 public:
  AsyncLoop(const TrainOptions& options, Collaborators& with, const AsyncAccess& access)
      : options_(alone(options)),
        with_(with),
        access_(access),
        servers_(access.servers.network, access.servers.client,
                 [this](std::int64_t step) { batches_.add(step); }) {}

  ~AsyncLoop() { batches_.close(); }
  AsyncLoop(const AsyncLoop&) = delete;
  AsyncLoop& operator=(const AsyncLoop&) = delete;

  Result run();

 private:
  ps::Standing await_standing();
  void start(const ps::Standing& standing);
  StrategyFactory make_strategy(bool hands_over);

  ps::Event next_event();
  void tell_of_wait(std::optional<int> held_by);
  void run_step(const ps::Event& lease);

  // Of worker 0.
  std::optional<Result> go_on();
  std::optional<Result> at_cut(const ps::Event& cut);
  void take(const ps::Totals& totals);
  checkpoint::State with(const ps::Totals& totals) const;
  void count_samples();
  void begin_epoch();
  void finish_epoch();
  void set_fence();
  void save_if_due(std::int64_t epochs);
  void pull();
  void evaluate_now();
  std::function<checkpoint::Contents()> tensors(std::int64_t epochs);
  Result finish();

  bool leads() const { return access_.servers.client.worker == 0; }
  static Result result_of(bool saved) { return saved ? Result::kSaved : Result::kSucceeded; }

  const TrainOptions options_;
  Collaborators& with_;
  const AsyncAccess& access_;
  LeasedBatches batches_;
  std::optional<Started> now_;
  AsyncStrategy* strategy_ = nullptr;  // now_'s
  ps::AsyncClientThread servers_;      // its thread writes into what stands above
  std::optional<StepSequence> sequence_;
  bool stop_told_ = false;
  int looks_waiting_ = 0;

  // Of worker 0.
  std::optional<Reporter> reporter_;
  checkpoint::State base_;
  int fence_ = 0;         // how many were set
  ps::Totals totals_;     // since the last one, as told last
  bool is_late_ = false;  // what was done before this worker came is not its to report
  bool stopping_ = false;
  bool cut_asked_ = false;  // to save
  std::optional<data::EpochOrder> order_;
  std::int64_t order_first_ = 0;    // the step at which it begins
  std::int64_t order_samples_ = 0;  // of the epoch, before it
  double waited_before_ = 0;
  std::int64_t pulled_step_ = -1;
  std::optional<Scores> scores_;  // of the newest evaluation
  std::int64_t scored_step_ = -1;
  bool is_best_ = false;  // by that evaluation, and not saved yet
};

ps::Standing AsyncLoop::await_standing() {
  for (auto left = access_.patience; left.count() > 0; left -= kLook)
    if (const auto standing = servers_.await_standing(kLook)) return *standing;
  throw Error(ExitCode::kPeersMissing,
              fmt::format("[ps] training has not begun after {} s", access_.patience.count()));
}

StrategyFactory AsyncLoop::make_strategy(bool hands_over) {
  return [this, hands_over](const StrategyInputs& inputs) {
    const int servers = static_cast<int>(access_.servers.client.servers.size());
    auto strategy = std::make_unique<AsyncStrategy>(inputs, servers_, servers, hands_over);
    strategy_ = strategy.get();
    return strategy;
  };
}

void AsyncLoop::start(const ps::Standing& standing) {
  const bool begins = standing.fences == 0;
  with_.strategy = make_strategy(begins);
  if (!begins) with_.goes_on_from = checkpoint::decode_state(standing.note, "worker 0's note");
  now_ = start_up(options_, with_);
  fence_ = standing.fences;
  is_late_ = !begins;
  const StepSequence sequence(sampler_of(options_, now_->state, with_.training), now_->cut,
                              position_of(now_->state, with_.training), now_->state.step);
  sequence_.emplace(sequence);
  batches_.start(sequence);
  now_->loader = make_loader(
      options_, with_.training, [this] { return batches_.next(); }, kLoaderDepth,
      now_->skipped.get());
  base_ = now_->state;
  now_->info.world_size = access_.workers;
  now_->info.ranks_train_apart = true;
  if (!leads()) return;
  reporter_.emplace(&with_.observer, reporter_options(options_, now_->info), with_.now);
  with_.observer.started(now_->info);
  begin_epoch();
}

Result AsyncLoop::run() {
  const ps::Standing standing = await_standing();
  if (standing.end) return result_of(*standing.end);
  start(standing);
  if (leads() && standing.fences == 0) {
    const std::optional<Result> result = is_complete(options_, base_) ? finish() : go_on();
    if (result) return *result;
  }
  for (int i = 0; i < kLeases; ++i) servers_.ask_lease();
  for (;;) {
    const ps::Event event = next_event();
    if (event.kind == ps::Event::Kind::kEnd) return result_of(event.stop);
    if (event.kind == ps::Event::Kind::kLease)
      run_step(event);
    else if (const auto result = at_cut(event))
      return *result;
  }
}

ps::Event AsyncLoop::next_event() {
  for (looks_waiting_ = 0;;) {
    if (with_.stop && !std::exchange(stop_told_, true)) servers_.cut_now(true);
    std::optional<int> held_by;
    if (const auto event = servers_.next_event(kLook, held_by)) return *event;
    tell_of_wait(held_by);
  }
}

void AsyncLoop::tell_of_wait(std::optional<int> held_by) {
  looks_waiting_ = held_by ? looks_waiting_ + 1 : 0;
  const bool speaks =
      looks_waiting_ == kFirstWord || (looks_waiting_ > 0 && looks_waiting_ % kNextWord == 0);
  if (speaks && access_.on_waiting) access_.on_waiting(fmt::format("worker {}", *held_by));
}

void AsyncLoop::run_step(const ps::Event& lease) {
  require_few_skipped(lease.totals.skipped_in_a_row, options_.max_skipped, lease.step);
  if (leads()) take(lease.totals);
  const AtStep at{access_.servers.client.worker, lease.step};
  const StepPlan plan = sequence_->plan(lease.step);
  const double divisor = options_.divide_by_count ? static_cast<double>(plan.global_count) : 1;
  strategy_->lease(lease.step);
  strategy_->begin(plan);
  for (const MicroBatch& micro : plan.micro_batches)
    run_micro_batch(options_, *now_, micro, divisor, false, at);
  fail_here(options_, at, Phase::kReduce);
  strategy_->finish_step();
  fail_here(options_, at, Phase::kUpdate);
  now_->executables->parameters_changed();
  const backend::ControlSums& sums = strategy_->outcome().sums;
  servers_.done(lease.step, {sums.samples, sums.loss, sums.correct, sums.updated ? 0.0 : 1.0});
  servers_.ask_lease();
  if (now_->saver) {
    now_->saver->poll();
    if (now_->saver->due_by_time() && !std::exchange(cut_asked_, true)) servers_.cut_now(false);
  }
}

checkpoint::State AsyncLoop::with(const ps::Totals& totals) const {
  checkpoint::State state = base_;
  state.step += totals.steps;
  state.update_count += totals.steps - totals.skipped;
  state.skipped_in_a_row = totals.skipped_in_a_row;
  state.epoch_loss_sum += totals.loss;
  state.epoch_correct += static_cast<std::int64_t>(totals.correct);
  state.epoch_samples += static_cast<std::int64_t>(totals.samples);
  return state;
}

// Tells of what has come since it told last.
void AsyncLoop::take(const ps::Totals& totals) {
  const ps::Totals before = std::exchange(totals_, totals);
  const std::int64_t steps = totals.steps - before.steps;
  if (steps <= 0 || std::exchange(is_late_, false)) return;
  const checkpoint::State state = with(totals);
  StepOutcome outcome;
  outcome.sums.samples = totals.samples - before.samples;
  outcome.sums.loss = totals.loss - before.loss;
  outcome.sums.correct = totals.correct - before.correct;
  outcome.lr = now_->course.rate(state.step - 1).lr;
  const std::int64_t updates = steps - (totals.skipped - before.skipped);
  reporter_->stepped_apart(state, outcome, steps,
                           {updates, totals.staleness - before.staleness, totals.most_staleness});
}

void AsyncLoop::begin_epoch() {
  order_.emplace(order_from(options_, base_, with_.training));
  order_first_ = base_.step;
  order_samples_ = base_.samples_in_epoch;
  waited_before_ = now_->loader->seconds_waited();
  reporter_->start_epoch();
}

// All steps below the cut are done.
void AsyncLoop::count_samples() {
  base_.samples_in_epoch = order_samples_;
  for (std::int64_t step = order_first_; step < base_.step; ++step)
    base_.samples_in_epoch += order_->global_count(step - order_first_);
}

std::optional<Result> AsyncLoop::at_cut(const ps::Event& cut) {
  take(cut.totals);
  base_ = with(std::exchange(totals_, {}));
  stopping_ = cut.stop;
  cut_asked_ = false;
  count_samples();
  require_few_skipped(base_.skipped_in_a_row, options_.max_skipped, base_.step);
  return go_on();
}

// From a cut, or from the beginning of what is not complete.
std::optional<Result> AsyncLoop::go_on() {
  const auto is_last = [this] { return base_.step >= now_->course.total_steps; };
  std::int64_t epochs = 0;
  while (base_.step == order_first_ + order_->steps() && (!stopping_ || is_last())) {
    finish_epoch();
    epochs = base_.epoch;
    if (is_complete(options_, base_)) break;
    begin_epoch();
  }
  if (stopping_ || is_complete(options_, base_)) return finish();
  save_if_due(epochs);
  set_fence();
  return std::nullopt;
}

void AsyncLoop::finish_epoch() {
  reporter_->stop_clock();
  const bool evaluated = with_.test != nullptr && options_.evaluate_every_epochs > 0 &&
                         (base_.epoch + 1) % options_.evaluate_every_epochs == 0 && !stopping_;
  if (evaluated) {
    evaluate_now();
    count_evaluation(options_.early_stopping, *scores_, base_.epoch + 1, base_);
  }
  reporter_->finished_epoch(base_, now_->loader->seconds_waited() - waited_before_,
                            evaluated ? scores_ : std::nullopt);
  advance_epoch(base_, *order_);
}

void AsyncLoop::set_fence() {
  std::int64_t step = std::min(order_first_ + order_->steps(), now_->course.total_steps);
  const std::int64_t every = options_.checkpoint.every_steps;
  if (now_->saver && every > 0) step = std::min(step, (base_.step / every + 1) * every);
  servers_.set_fence(++fence_, step, checkpoint::encode(base_));
}

void AsyncLoop::pull() {
  if (std::exchange(pulled_step_, base_.step) == base_.step) return;
  servers_.pull(base_.step);
  now_->executables->parameters_changed();
}

void AsyncLoop::evaluate_now() {
  fail_here(options_, {0, base_.step}, Phase::kEvaluate);
  pull();
  scores_ = evaluate(*now_->executables, *with_.test,
                     {evaluation_batch(options_, *with_.test), evaluation_steps(options_),
                      options_.data_workers, now_->skipped.get()},
                     *with_.communicator, now_->cut);
  scored_step_ = base_.step;
  base_.last_accuracy = scores_->accuracy;
  base_.last_loss = scores_->loss;
  is_best_ = take_best(options_.checkpoint, *scores_, base_);
}

// A checkpoint that any strategy goes on from, as if all workers had made their steps together.
// `epochs`: as for save_if_due.
std::function<checkpoint::Contents()> AsyncLoop::tensors(std::int64_t epochs) {
  pull();
  backend::write_update_count(base_.update_count, *now_->parameters);
  checkpoint::State saved = base_;
  saved.world_size = access_.workers;
  if (!options_.global_batch_size) saved.global_batch *= access_.workers;
  const checkpoint::Keep keep{due_by_epochs(options_.checkpoint, epochs) ? epochs : 0,
                              std::exchange(is_best_, false)};
  return [tensors = strategy_->snapshot(), saved, keep] {
    checkpoint::Contents contents = tensors();
    contents.state = saved;
    contents.keep = keep;
    return contents;
  };
}

// `epochs`: how many are complete with this cut; 0: it ends none.
void AsyncLoop::save_if_due(std::int64_t epochs) {
  if (!now_->saver || fence_ == 0) return;  // before the first step there is nothing new
  now_->saver->poll();
  if (!is_best_ && !now_->saver->due(base_.step, epochs)) return;
  if (is_best_ || due_by_epochs(options_.checkpoint, epochs)) now_->saver->wait();
  now_->saver->start(tensors(epochs));
  fail_here(options_, {0, base_.step}, Phase::kSave);
}

Result AsyncLoop::finish() {
  reporter_->stop_clock();
  base_.finished = is_complete(options_, base_);
  if (base_.finished) {
    if (with_.test != nullptr && scored_step_ != base_.step) evaluate_now();
    require_finite_end(base_, scores_);
  }
  if (now_->saver && !now_->already_complete) {
    const SaveGate::Saving saving(with_.saves);
    now_->saver->save_now(tensors(base_.samples_in_epoch == 0 ? base_.epoch : 0));
  }
  servers_.end(!base_.finished);
  while (next_event().kind != ps::Event::Kind::kEnd) continue;
  const bool saved = now_->saver && !now_->saver->newest().empty();
  tell_of_skipped(*now_, with_.observer);
  if (!now_->already_complete && stops_early(options_.early_stopping, base_))
    with_.observer.warned(why_early(options_.early_stopping, base_));
  reporter_->finished(base_, scores_, saved ? now_->saver->newest() : now_->info.resumed_from);
  return result_of(!base_.finished);
}

}  // namespace

Result train_async(const TrainOptions& options, Collaborators collaborators,
                   const AsyncAccess& access) {
  return AsyncLoop(options, collaborators, access).run();
}

}  // namespace coxswain::train
