#include "tests/trainer/backend/cuda/kernel_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "tests/support/cuda_host/device.h"
#include "tests/support/model_run.h"
#include "trainer/backend/control.h"
#include "trainer/backend/cuda/cuda_backend.h"
#include "trainer/backend/reference/reference_backend.h"
#include "trainer/contract/error.h"
#include "trainer/graph/graph.h"

namespace coxswain::test {

namespace {

using Values = std::vector<float>;

// A norm, a convolution with a bias and dropout, on 2 x 9 x 9 pixels.
graph::Graph small_model() {
  constexpr auto kInit = graph::WeightInit::kXavierUniform;
  graph::Builder b({1, 2, 9, 9});
  int x = b.relu(b.batch_norm(b.conv(0, "c1", 5, 3, 1, 1, true, kInit), "n1"));
  x = b.dropout(b.max_pool(x, 2, 2), "d1", 0.25F);
  return b.finish(b.dense(b.flatten(x), "head", 7, true, kInit), 0.1F);
}

// What steps that nobody waits for, each with another batch, leave: losses, weights, then an edge
// that was brought to the device and back.
Values steps(Backend& backend) {
  ModelRun run(backend, small_model(), {.rows = 5, .num_slots = 2});
  const auto control = run.parameters->gradients(run.parameters->layout().control());
  auto& memory = run.parameters->memory();
  std::vector<tensor::Memory::Snapshot> controls;
  for (int step = 0; step < 8; ++step) {
    backend.begin_step(std::vector<std::int64_t>{5});
    run.batch.epoch = step;
    std::ranges::rotate(run.labels, run.labels.begin() + 1);
    memory.write(backend::to_control(false, 0), control);
    backend::forward(*run.executable, run.batch);
    run.executable->write_sums(control);
    run.backward();
    backend.update({.weight_decay = 0.01F, .clip_norm = 0.5F},
                   {.lr = 0.05F - 0.005F * static_cast<float>(step), .momentum = 0.9F}, 1,
                   *run.parameters);
    backend.end_step();
    controls.push_back(memory.snapshot(control));
  }
  for (const OptimizerKind kind :
       {OptimizerKind::kSgd, OptimizerKind::kLars, OptimizerKind::kLamb, OptimizerKind::kMuon}) {
    backend.update({.kind = kind, .decay_scope = DecayScope::kWeights, .weight_decay = 0.01F},
                   {.lr = 0.05F, .momentum = 0.9F}, 1, *run.parameters);
  }
  const auto weights = memory.snapshot(run.parameters->weights());
  memory.fill(run.parameters->weights(), 0);
  const Values all = weights();
  Values result;
  for (const tensor::Segment& s : run.parameters->layout().segments) {
    if (s.kind == tensor::SegmentKind::kControl) continue;
    Values canonical(static_cast<std::size_t>(s.elements()));
    backend.to_canonical(s,
                         std::span(all).subspan(static_cast<std::size_t>(s.offset),
                                                static_cast<std::size_t>(s.stored)),
                         canonical);
    result.insert(result.end(), canonical.begin(), canonical.end());
  }
  for (auto& snapshot : controls) {
    const Values values = snapshot();
    result.insert(result.end(), {values[3], values[4], values[backend::kUpdated]});
  }
  Values images = run.images;
  std::ranges::reverse(images);
  run.executable->load(run.batch);
  run.executable->store(0, images);
  const Values fetched = run.executable->fetch(0);
  result.insert(result.end(), fetched.begin(), fetched.end());
  return result;
}

// A loss that was not waited for, when a larger program is prepared.
double loss_beside_a_larger_program(Backend& backend) {
  ModelRun run(backend, small_model(), {.rows = 3});
  backend::forward(*run.executable, run.batch);
  const auto program =
      graph::compile(small_model(), 64, Precision::kFp32, graph::Mode::kEvaluation);
  const auto larger = backend.prepare(program, *run.parameters);
  return run.executable->sums().loss;
}

// More writes than may be on their way at once, each followed by a snapshot that is read late.
std::string check_writes(Backend& backend) {
  ModelRun run(backend, small_model(), {});
  auto& memory = run.parameters->memory();
  const auto to = run.parameters->weights().range(0, 16);
  std::vector<tensor::Memory::Snapshot> snapshots;
  for (int i = 0; i < 20; ++i) {
    memory.write(Values(16, static_cast<float>(i)), to);
    snapshots.push_back(memory.snapshot(to));
  }
  for (int i = 0; i < 20; ++i) {
    if (snapshots[static_cast<std::size_t>(i)]() != Values(16, static_cast<float>(i)))
      return fmt::format("snapshot {} holds something else", i);
  }
  return "";
}

bool agree(double expected, double actual) {
  return std::abs(expected - actual) <= 1e-5 + 1e-5 * std::abs(expected);  // false for NaN
}

// Own times first.
std::string check_timing(Backend& backend) {
  const graph::Program program =
      graph::compile(small_model(), 2, Precision::kFp32, graph::Mode::kTraining);
  const auto times = backend.time_algorithms(program, [] { return true; });
  for (const auto& [name, tried] : times.value())
    if (tried.front().name != "loops" || tried.size() != 3) return "something else was timed";
  const double microseconds = 1e6 * times->at("c1.forward").front().seconds;
  return agree(25, microseconds) ? "" : fmt::format("a convolution took {} us", microseconds);
}

struct Expected {
  Values steps;
  double loss;
};

const Expected& expected() {
  static const Expected once = [] {
    const auto reference = backend::make_reference_backend();
    return Expected{steps(*reference), loss_beside_a_larger_program(*reference)};
  }();
  return once;
}

std::string find_difference(std::uint64_t seed) {
  const Expected& wanted = expected();
  cuda_host::set_seed(seed);
  const auto cuda = backend::make_cuda_backend(0);
  const Values actual = steps(*cuda);
  for (std::size_t i = 0; i < wanted.steps.size(); ++i) {
    if (!agree(wanted.steps[i], actual[i]))
      return fmt::format("value {} of the steps: {} instead of {}", i, actual[i], wanted.steps[i]);
  }
  const auto another = backend::make_cuda_backend(0);
  const double loss = loss_beside_a_larger_program(*another);
  if (!agree(wanted.loss, loss)) return fmt::format("loss {} instead of {}", loss, wanted.loss);
  const std::string timing = check_timing(*another);
  return timing.empty() ? check_writes(*cuda) : timing;
}

}  // namespace

std::string check_everything(std::uint64_t seed) {
  try {
    return find_difference(seed);
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace coxswain::test
