#include "trainer/train/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "trainer/data/data_loader.h"
#include "trainer/train/part_sums.h"

namespace coxswain::train {

namespace {

using backend::LossSums;

// Counts travel as two floats, each exact: value = high * 4096 + low. A float alone loses counts
// above 2^24.
constexpr std::int64_t kLow = 4096;
constexpr std::size_t kSumFloats = 16;
using SumFloats = std::array<float, kSumFloats>;

SumFloats encode(const LossSums& sums) {
  SumFloats out{};
  const auto put = [&](std::size_t at, std::int64_t count) {
    out[at] = static_cast<float>(count / kLow);
    out[at + 1] = static_cast<float>(count % kLow);
  };
  put(0, sums.samples);
  put(2, sums.correct);
  put(4, sums.correct_top5);
  out[6] = static_cast<float>(sums.loss);
  out[7] = static_cast<float>(sums.loss - static_cast<double>(out[6]));
  return out;
}

Scores decode(std::span<const float> sums) {
  const auto count = [&](std::size_t at) {
    return static_cast<std::int64_t>(sums[at]) * kLow + static_cast<std::int64_t>(sums[at + 1]);
  };
  Scores scores;
  scores.samples = count(0);
  const double total = std::max<double>(1, static_cast<double>(scores.samples));
  scores.loss = (static_cast<double>(sums[6]) + static_cast<double>(sums[7])) / total;
  scores.accuracy = static_cast<double>(count(2)) / total;
  scores.top5 = static_cast<double>(count(4)) / total;
  return scores;
}

LossSums score_rows(backend::Executable& executable, const data::Dataset& dataset,
                    const EvaluationOptions& options, data::RowRange rows) {
  data::LoaderOptions loader_options;
  loader_options.preprocessing = options.preprocessing;
  loader_options.training = false;
  loader_options.workers = options.data_workers;
  loader_options.skipped = options.skipped;
  data::DataLoader loader(dataset, loader_options,
                          data::in_order(rows.first, rows.last, options.batch));
  LossSums total;
  while (const data::HostBatch* batch = loader.next()) {
    backend::forward(
        executable,
        {{batch->images, loader.table()}, batch->labels, batch->sample_ids, 0, 0, batch->valid, 1});
    const LossSums sums = executable.sums();
    total.loss += sums.loss;
    total.correct += sums.correct;
    total.correct_top5 += sums.correct_top5;
    total.samples += sums.samples;
  }
  return total;
}

}  // namespace

Scores evaluate(Executables& executables, const data::Dataset& dataset,
                const EvaluationOptions& options, comm::Communicator& communicator,
                const StepCut& cut) {
  backend::Executable& executable = executables.get(graph::Mode::kEvaluation, options.batch);
  tensor::HostMemory memory;
  PartSums parts(memory, kSumFloats);
  const auto add_cut = [&](int index, int count) {
    SumFloats sums =
        encode(score_rows(executable, dataset, options, data::cut(dataset.size(), index, count)));
    parts.add_shard(sums);
  };
  if (cut.virtual_shards == 0) {
    add_cut(communicator.rank(), communicator.size());
    parts.finish_part();
  } else {
    for (const auto& range :
         comm::parts_of(cut.virtual_shards, cut.world_size, communicator.rank())) {
      for (int shard = range.first; shard < range.last; ++shard) add_cut(shard, cut.virtual_shards);
      parts.finish_part();
    }
  }
  comm::Reduction reduction;
  for (std::size_t i = 0; i < parts.size(); ++i) reduction.parts.push_back(parts.part(i));
  communicator.wait(communicator.all_reduce_sum(cut.reduction(), std::move(reduction)));
  const Scores scores = decode(memory.snapshot(parts.part(0))());
  if (scores.samples == 0 && dataset.size() > 0) {
    throw Error(ExitCode::kBadInput,
                fmt::format("[data] none of the {} test samples can be read", dataset.size()));
  }
  return scores;
}

}  // namespace coxswain::train
