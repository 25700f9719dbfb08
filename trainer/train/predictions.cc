#include "trainer/train/predictions.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "trainer/data/data_loader.h"

namespace coxswain::train {

namespace {

std::vector<double> softmax(std::span<const float> logits) {
  const double most = *std::ranges::max_element(logits);
  std::vector<double> shares(logits.size());
  double sum = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    shares[i] = std::exp(static_cast<double>(logits[i]) - most);
    sum += shares[i];
  }
  for (double& share : shares) share /= sum;
  return shares;
}

}  // namespace

void predict(Executables& executables, const data::Dataset& dataset,
             const EvaluationOptions& options, const OnPrediction& on_prediction) {
  backend::Executable& executable = executables.get(graph::Mode::kEvaluation, options.batch);
  const int logits_edge = executable.program().graph.loss().inputs.front();
  data::LoaderOptions loading;
  loading.preprocessing = options.preprocessing;
  loading.training = false;
  loading.workers = options.data_workers;
  loading.skipped = options.skipped;
  data::DataLoader loader(dataset, loading, data::in_order(0, dataset.size(), options.batch));
  while (const data::HostBatch* batch = loader.next()) {
    backend::forward(
        executable,
        {{batch->images, loader.table()}, batch->labels, batch->sample_ids, 0, 0, batch->valid, 1});
    const std::vector<float> logits = executable.fetch(logits_edge);
    const std::size_t classes = logits.size() / static_cast<std::size_t>(options.batch);
    for (std::size_t row = 0; row < static_cast<std::size_t>(batch->valid); ++row)
      on_prediction(batch->sample_ids[row], batch->labels[row],
                    softmax(std::span(logits).subspan(row * classes, classes)));
  }
}

}  // namespace coxswain::train
