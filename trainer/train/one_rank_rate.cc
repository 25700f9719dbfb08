#include "trainer/train/one_rank_rate.h"

#include <chrono>
#include <numeric>
#include <span>

#include "trainer/train/model_state.h"

namespace coxswain::train {

namespace {

constexpr int kWarmUpSteps = 3;
constexpr int kLeastSteps = 3;
constexpr int kMostSteps = 500;
constexpr double kSeconds = 2;

// Resource. A training of one rank that leaves nothing behind.
class Trial {
 public:
  Trial(const graph::Graph& graph, const TrainOptions& options, const Collaborators& with,
        const Started& now)
      : options_(options),
        with_(with),
        now_(now),
        order_(sampler_of(options, now.state, with.training), now.state.epoch, data::EpochPlace{}),
        plan_(plan_step(now.cut, order_, 0, 0)),
        parameters_(with.backend.make_parameters(now.parameters->layout(),
                                                 static_cast<int>(slot_names(options).size()))),
        executables_(graph, options.precision, with.backend, *parameters_) {
    initialise(graph::compile(graph, options.batch_size, options.precision, graph::Mode::kTraining),
               options.seed, with.backend, *parameters_);
    if (options.skip_bad_samples) skipped_ = std::make_unique<data::BadSampleLog>();
    loader_ = make_loader(
        options, with.training, [this] { return next_request(); }, data::LoaderOptions{}.depth,
        skipped_.get());
  }

  std::optional<double> rate() {
    const std::int64_t samples = samples_of_step();
    if (samples == 0) return std::nullopt;
    for (int i = 0; i < kWarmUpSteps; ++i) run_step();
    const auto start = with_.now();
    int steps = 0;
    double seconds = 0;
    for (; steps < kLeastSteps || (seconds < kSeconds && steps < kMostSteps); ++steps) {
      run_step();
      seconds = std::chrono::duration<double>(with_.now() - start).count();
    }
    if (seconds <= 0) return std::nullopt;
    return static_cast<double>(steps * samples) / seconds;
  }

 private:
  std::int64_t samples_of_step() const {
    std::int64_t samples = 0;
    for (const MicroBatch& micro : plan_.micro_batches) samples += std::ssize(micro.sample_ids);
    return samples;
  }

  // The first step's batches over and over, on the loader's threads as ever.
  std::optional<data::BatchRequest> next_request() {
    const MicroBatch& micro = plan_.micro_batches[next_++ % plan_.micro_batches.size()];
    return data::BatchRequest{
        {micro.sample_ids.begin(), micro.sample_ids.end()}, now_.state.epoch, 0, micro.before};
  }

  void run_step() {
    with_.backend.begin_step(rows_of(plan_));
    for (const MicroBatch& micro : plan_.micro_batches) {
      const data::HostBatch& rows = *loader_->next();
      if (micro.sample_ids.empty()) continue;
      backend::Executable& executable =
          executables_.get(graph::Mode::kTraining, static_cast<std::int64_t>(rows.labels.size()));
      backend::forward(executable, {{rows.images, loader_->table()},
                                    rows.labels,
                                    rows.sample_ids,
                                    options_.seed,
                                    rows.epoch,
                                    rows.valid,
                                    static_cast<double>(samples_of_step()),
                                    rows.partner_labels,
                                    rows.shares});
      executable.write_sums(control());
      backend::backward(executable, [](int) {});
    }
    with_.backend.update(options_.rule, now_.course.rate(0), 1, *parameters_);
    with_.backend.end_step();
    parameters_->memory().snapshot(control())();  // waits for the device
    executables_.parameters_changed();
  }

  tensor::Slice control() const { return parameters_->gradients(parameters_->layout().control()); }

  const TrainOptions& options_;
  const Collaborators& with_;
  const Started& now_;
  data::EpochOrder order_;  // a whole one: of that under way nothing may be left
  StepPlan plan_;           // of the first step, as rank 0 has it
  std::size_t next_ = 0;
  std::unique_ptr<backend::Parameters> parameters_;
  Executables executables_;
  std::unique_ptr<data::BadSampleLog> skipped_;
  std::unique_ptr<data::DataLoader> loader_;
};

}  // namespace

std::optional<double> measure_one_rank(const graph::Graph& graph, const TrainOptions& options,
                                       const Collaborators& with, const Started& now) {
  double rate = 0;
  if (with.communicator->rank() == 0) rate = Trial(graph, options, with, now).rate().value_or(0);
  with.communicator->broadcast(std::as_writable_bytes(std::span(&rate, 1)), 0);
  return rate > 0 ? std::optional(rate) : std::nullopt;
}

}  // namespace coxswain::train
