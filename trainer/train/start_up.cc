#include "trainer/train/start_up.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "trainer/checkpoint/format.h"
#include "trainer/checkpoint/reader.h"
#include "trainer/data/dataset_identity.h"
#include "trainer/graph/models/models.h"
#include "trainer/train/agreement.h"
#include "trainer/train/algorithm_timing.h"
#include "trainer/train/best_epoch.h"
#include "trainer/train/fitted_slots.h"
#include "trainer/train/loaded_checkpoint.h"
#include "trainer/train/model_state.h"
#include "trainer/train/one_rank_rate.h"
#include "trainer/train/pretrained.h"
#include "trainer/train/resume.h"
#include "trainer/train/whitening.h"

namespace coxswain::train {

namespace {

constexpr std::int64_t kNoEnd = INT64_MAX / 2;

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

// No more is rolled over than there was, whatever a file says.
data::EpochPlace place(const checkpoint::State& state, const data::Dataset& training) {
  return {.rolled_over = std::min(state.rolled_over, state.epoch * training.size()),
          .done = state.samples_in_epoch};
}

// As it is before anything of it is trained.
checkpoint::State first_state(const TrainOptions& options, const Collaborators& with) {
  checkpoint::State state;
  state.world_size = with.communicator->size();
  state.global_batch = configured_global_batch(options, state.world_size);
  state.attempt = options.attempt;
  state.loss_scale = options.loss_scaling.initial;
  state.fingerprint = with.backend.fingerprint();
  if (!options.fixed_order) state.fingerprint += " sums=any";
  state.identity = options.identity;
  state.trajectory = options.trajectory;
  state.dataset = data::identity_of(with.training);
  state.class_names = with.training.class_names();
  state.network = options.network;
  return state;
}

// The steps of one start, in order.
class StartUp {
 public:
  StartUp(const TrainOptions& options, const Collaborators& with)
      : options_(options),
        with_(with),
        communicator_(*with.communicator),
        leads_(with.communicator->rank() == 0),
        graph_(build_graph(options,
                           augment::result_of(options.preprocessing, with.training.sample_shape()),
                           with.training.classes(), options.label_smoothing)),
        program_(graph::freeze(
            graph::compile(graph_, options.batch_size, options.precision, graph::Mode::kTraining),
            options.freeze)) {}

  Started run() {
    notes() = options_.notes;
    if (options_.skip_bad_samples) now_.skipped = std::make_unique<data::BadSampleLog>();
    if (!options_.timeline.file.empty()) {
      now_.timeline = std::make_unique<Timeline>(options_.timeline, with_.now);
      now_.timed_training = std::make_unique<TimedDataset>(with_.training, *now_.timeline);
    }
    const bool new_run = leads_ && begins_run(options_);
    if (!with_.goes_on_from) load(new_run);
    choose_algorithms();
    make_strategy();
    tell_of_slow_bfloat16();
    if (with_.test != nullptr) {
      data::require_one_kind(with_.training, *with_.test, options_.preprocessing,
                             evaluation_steps(options_));
    }
    now_.state = first_state(options_, with_);
    now_.state.algorithms = algorithms_;
    now_.state.fingerprint += now_.strategy->fingerprint();
    if (options_.fixed_order) {
      compare_fingerprints(communicator_, now_.state.fingerprint, options_.virtual_shards > 0,
                           notes());
    }
    if (with_.goes_on_from)
      now_.state = *with_.goes_on_from;
    else if (saved_)
      resume();
    else
      begin();
    if (leads_ && !options_.checkpoint.directory.empty()) {
      now_.saver = std::make_unique<Saver>(options_.checkpoint,
                                           new_run ? std::optional(options_.job_uid) : std::nullopt,
                                           with_.saves, with_.observer, with_.now);
    }
    count_steps();
    prepare();
    if (now_.state.pushes_exactly) now_.strategy->push_exactly();
    if (options_.one_rank_rate) tell_one_rank_rate();
    now_.strategy->start(now_.course, now_.state.step);
    describe();
    return std::move(now_);
  }

 private:
  std::vector<std::string>& notes() { return now_.info.notes; }

  void make_strategy() {
    now_.cut = {communicator_.size(), options_.virtual_shards, options_.accumulate};
    const bool takes_rows = options_.rule.kind == OptimizerKind::kMuon;
    now_.parameters = with_.backend.make_parameters(
        takes_rows ? with_.backend.layout(program_, backend::LayoutKind::kCanonical)
                   : agreed_layout(communicator_, with_.backend, program_, notes()),
        static_cast<int>(slot_names(options_).size()));
    if (options_.joins_norms)
      now_.ranks = std::make_unique<RankGather>(communicator_, now_.parameters->memory());
    now_.executables =
        std::make_unique<Executables>(graph_, options_.precision, with_.backend, *now_.parameters);
    now_.strategy = with_.strategy({options_, communicator_, with_.backend, *now_.parameters,
                                    now_.cut, with_.now, now_.timeline.get()});
  }

  // Rank 0 alone reads pretrained weights, or images for first ones.
  void begin() {
    now_.strategy->initialise(program_);
    const bool is_pretrained = !options_.pretrained.empty();
    if (!is_pretrained && !whitens(graph_)) return;
    checkpoint::Contents contents;
    if (leads_) {
      contents = snapshot(with_.backend, *now_.parameters, slot_names(options_))();
      if (is_pretrained)
        begin_with(options_.pretrained, graph_, contents, notes());
      else
        whiten(graph_, options_, with_.training, contents, notes());
    }
    now_.strategy->restore(leads_ ? &contents : nullptr);
  }

  // Rank 0 reads and verifies; the others, which may not have the volume, get what it read.
  void load(bool new_run) {
    if (leads_) loaded_ = load_checkpoint(options_, with_.training, new_run, notes());
    saved_ = of_rank_0(loaded_ ? std::optional(loaded_->contents.state) : std::nullopt);
  }

  std::optional<checkpoint::State> of_rank_0(const std::optional<checkpoint::State>& state) {
    const std::string text = broadcast_text(communicator_, state ? checkpoint::encode(*state) : "");
    if (text.empty()) return std::nullopt;
    return checkpoint::decode_state(text, "rank 0's state");
  }

  // As the run began with, or as rank 0 times them now. A rank that lacks one takes its own choice.
  void choose_algorithms() {
    const auto& begun = with_.goes_on_from ? with_.goes_on_from : saved_;
    checkpoint::State choice;
    if (begun) {
      choice = *begun;
    } else if (!options_.fixed_order) {
      if (leads_) {
        const ChosenAlgorithms chosen = time_algorithms(program_, options_, with_, notes());
        choice.algorithms = chosen.algorithms;
        step_seconds_ = chosen.step_seconds;
      }
      choice = *of_rank_0(choice);
    }
    algorithms_ = choice.algorithms;
    with_.backend.use(algorithms_);
  }

  // The device knows, or the clock: on a host, since what is enqueued on another device is done
  // after it was asked.
  void tell_of_slow_bfloat16() {
    const std::string remark = with_.backend.remark(program_);
    if (leads_ && !remark.empty()) notes().push_back(remark);
    if (!remark.empty()) return;
    const bool is_timed = leads_ && !saved_ && !with_.goes_on_from && !options_.fixed_order &&
                          now_.parameters->memory().place() == tensor::Place::kHost;
    if (is_timed && options_.precision == Precision::kBf16)
      compare_with_float32(graph_, options_, with_, step_seconds_, notes());
  }

  void resume() {
    ResumePlan plan = plan_resume(*saved_, options_,
                                  {.world_size = now_.state.world_size,
                                   .global_batch = now_.state.global_batch,
                                   .fingerprint = now_.state.fingerprint,
                                   .dataset = now_.state.dataset,
                                   .class_names = now_.state.class_names});
    now_.state = std::move(plan.state);
    if (leads_) {
      for (const std::string& refused : loaded_->refused) {
        notes().push_back("passed over " + refused);
      }
      now_.info.resumed_from = loaded_->path.string();
      if (loaded_->contents.state.trajectory != options_.trajectory)
        fit_slots(now_.parameters->layout(), slot_names(options_), loaded_->contents, notes());
    }
    now_.strategy->restore(leads_ ? &loaded_->contents : nullptr);
    loaded_.reset();
    notes().insert(notes().end(), plan.notes.begin(), plan.notes.end());
  }

  void count_steps() {
    checkpoint::State& state = now_.state;
    Course& course = now_.course;
    const auto world_size = static_cast<std::int64_t>(state.world_size);
    course.schedule = options_.schedule;
    course.schedule.lr = static_cast<float>(scaled_lr(options_, state.global_batch));
    const data::SamplerOptions samples = sampler_of(options_, state, with_.training);
    const data::EpochPlace from = place(state, with_.training);
    course.steps_per_epoch = data::steps_of(samples, 1);
    if (course.steps_per_epoch == 0) {
      throw Error(
          ExitCode::kBadInput,
          fmt::format(
              "[data] {} training samples are too few for a global batch of {} on {} ranks: lower "
              "batchSize, or lastBatch: keep",
              with_.training.size(), state.global_batch, world_size));
    }
    const std::int64_t largest_step = std::min(state.global_batch, with_.training.size());
    if (largest_step < world_size) {
      notes().push_back(fmt::format("steps of {} samples leave {} of {} ranks without work",
                                    largest_step, world_size - largest_step, world_size));
    }
    course.total_steps = options_.steps.value_or(kNoEnd);
    if (options_.epochs.has_value()) {
      const std::int64_t epochs = std::max<std::int64_t>(0, *options_.epochs - state.epoch);
      course.total_steps =
          std::min(course.total_steps, state.step + data::steps_of(samples, epochs, from));
    }
    state.total_steps = course.total_steps;
    const std::int64_t behind =
        data::steps_of(samples, state.epoch + 1) - data::steps_of(samples, 1, from);
    course.steps_ahead = behind - state.step;
    now_.already_complete = state.finished && is_complete(options_, state);
    state.finished = false;
    if (now_.already_complete) {
      notes().push_back(
          stops_early(options_.early_stopping, state)
              ? fmt::format("already {}; raise earlyStopping.patience to go on",
                            why_early(options_.early_stopping, state))
              : fmt::format(
                    "already complete at epoch {}; raise epochs, or checkpoint.resume: false",
                    state.epoch));
    }
  }

  void prepare() {
    const int rank = communicator_.rank();
    if (!now_.already_complete) {
      const data::EpochOrder order = order_from(options_, now_.state, with_.training);
      if (now_.ranks) require_samples_on_all(now_.cut, order);
      for (const std::int64_t rows : batch_sizes(now_.cut, order, rank))
        now_.executables->get(graph::Mode::kTraining, rows);
    }
    if (with_.test != nullptr) {
      now_.executables->get(graph::Mode::kEvaluation, evaluation_batch(options_, *with_.test));
    }
  }

  void tell_one_rank_rate() {
    std::optional<double>& rate = now_.info.one_rank_rate;
    rate = options_.one_rank_rate;
    if (*rate > 0 || now_.already_complete) return;
    rate = measure_one_rank(graph_, options_, with_, now_);
    notes().push_back(rate ? fmt::format("one rank alone: {:.1f} images/s", *rate)
                           : "one rank alone: its pace could not be measured");
  }

  void describe() {
    const tensor::ParameterLayout& layout = now_.parameters->layout();
    for (const std::string& note : now_.strategy->notes()) notes().push_back(note);
    if (options_.precision == Precision::kFp16)
      notes().push_back(
          "precision fp16: this CPU rounds to it and computes in float32, which is "
          "slower than fp32");
    if (!options_.freeze.empty())
      notes().push_back(fmt::format("frozen: {} of {} weights", layout.frozen_count(),
                                    layout.frozen_count() + layout.parameter_count()));
    if (options_.rule.ema_decay > 0)
      notes().push_back(
          fmt::format("evaluates the weights' average: ema.decay {}", options_.rule.ema_decay));
    const checkpoint::State& state = now_.state;
    RunInfo& info = now_.info;
    info.model = options_.network.empty() ? word(options_.model) : "modelFile";
    info.parameters = layout.parameter_count();
    info.multiply_accumulates = graph::multiply_accumulates(program_.graph);
    info.rank = communicator_.rank();
    info.world_size = state.world_size;
    info.threads = options_.threads;
    info.training_samples = with_.training.size();
    info.test_samples = with_.test == nullptr ? 0 : with_.test->size();
    info.epochs = options_.epochs.value_or(0);
    info.total_steps = now_.course.total_steps;
    info.steps_per_epoch = now_.course.steps_per_epoch;
    info.global_batch = state.global_batch;
    info.lr = now_.course.schedule.lr;
    info.tells_top5 = options_.tells_top5;
    info.fingerprint = state.fingerprint;
    info.first_step = state.step;
    info.epoch =
        is_complete(options_, state) && state.samples_in_epoch == 0 ? state.epoch : state.epoch + 1;
  }

  const TrainOptions& options_;
  const Collaborators& with_;
  comm::Communicator& communicator_;
  const bool leads_;
  const graph::Graph graph_;
  const graph::Program program_;
  std::optional<checkpoint::Loaded> loaded_;  // by rank 0, until it is restored
  std::optional<checkpoint::State> saved_;    // what to go on from, on every rank
  backend::Algorithms algorithms_;
  std::optional<double> step_seconds_;  // with them, where they were timed
  Started now_;
};

}  // namespace

Started start_up(const TrainOptions& options, const Collaborators& with) {
  return StartUp(options, with).run();
}

bool is_complete(const TrainOptions& options, const checkpoint::State& state) {
  return stops_early(options.early_stopping, state) ||
         (options.steps.has_value() && state.step >= *options.steps) ||
         (options.epochs.has_value() && state.epoch >= *options.epochs);
}

data::EpochOrder order_from(const TrainOptions& options, const checkpoint::State& state,
                            const data::Dataset& training) {
  return {sampler_of(options, state, training), state.epoch, place(state, training)};
}

std::unique_ptr<data::DataLoader> make_loader(const TrainOptions& options,
                                              const data::Dataset& training,
                                              data::DataLoader::NextRequest next_request, int depth,
                                              data::BadSampleLog* skipped) {
  return std::make_unique<data::DataLoader>(
      training,
      data::LoaderOptions{.preprocessing = options.preprocessing,
                          .seed = options.seed,
                          .depth = depth,
                          .workers = options.data_workers,
                          .skipped = skipped},
      std::move(next_request));
}

data::SamplerOptions sampler_of(const TrainOptions& options, const checkpoint::State& state,
                                const data::Dataset& training) {
  return {training.size(), state.global_batch, state.world_size,
          options.split,   options.last_batch, options.seed};
}

Position position_of(const checkpoint::State& state, const data::Dataset& training) {
  return {state.epoch, place(state, training)};
}

void advance_epoch(checkpoint::State& state, const data::EpochOrder& order) {
  state.epoch += 1;
  state.samples_in_epoch = 0;
  state.rolled_over = order.next().rolled_over;
  state.epoch_loss_sum = 0;
  state.epoch_correct = 0;
  state.epoch_samples = 0;
}

void tell_of_skipped(const Started& now, Observer& observer) {
  if (now.skipped == nullptr || now.skipped->count() == 0) return;
  std::string text =
      fmt::format("bad samples that rank {} passed over: {}", now.info.rank, now.skipped->count());
  for (const std::string& bad : now.skipped->first()) text += "; " + bad;
  observer.warned(text);
}

}  // namespace coxswain::train
