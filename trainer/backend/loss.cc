#include "trainer/backend/loss.h"

#include <algorithm>
#include <cmath>

namespace coxswain::backend {

namespace {

using In = std::span<const float>;
using Out = std::span<float>;
using tensor::Shape;

struct Normaliser {
  double maximum = 0;
  double sum = 0;  // of exp(logit - maximum)
};

Normaliser normaliser(In row) {
  Normaliser result{row[0], 0};
  for (const float z : row) result.maximum = std::max<double>(result.maximum, z);
  for (const float z : row) result.sum += std::exp(z - result.maximum);
  return result;
}

// What a row is to be: of one class, or of two by their shares.
struct Target {
  std::size_t label;
  std::size_t partner;
  double share;  // of the label

  double at(std::size_t c) const {
    return (c == label ? share : 0.0) + (c == partner ? 1 - share : 0.0);
  }
  std::size_t greater() const { return share >= 0.5 ? label : partner; }
};

Target target_of(const Batch& batch, std::size_t row) {
  const auto label = static_cast<std::size_t>(batch.labels[row]);
  if (batch.shares.empty()) return {label, label, 1};
  return {label, static_cast<std::size_t>(batch.partner_labels[row]), batch.shares[row]};
}

// The cross entropy of one row against (1 - s) target + s / classes. Not finite where a logit
// isn't. Differences of logits alone are taken: beside a logit of 1e30 the sum is nothing.
double row_loss(In row, const Target& target, double smoothing) {
  const Normaliser norm = normaliser(row);
  const double log_sum = std::log(norm.sum);
  const auto at = [&](std::size_t c) { return log_sum + (norm.maximum - row[c]); };
  double at_label = at(target.label);
  if (target.share != 1) {
    at_label = target.share * at_label + (1 - target.share) * at(target.partner);
  }
  if (smoothing == 0) return at_label;
  double over_all = 0;
  for (const float z : row) over_all += log_sum + (norm.maximum - z);
  return (1 - smoothing) * at_label + smoothing * over_all / static_cast<double>(row.size());
}

// How many classes come before the label's: a greater logit, or an equal one of a lower index.
// Comparisons are written so that a NaN counts against the row.
int classes_before(In row, std::size_t label) {
  int count = 0;
  for (std::size_t c = 0; c < row.size(); ++c) {
    if (c < label ? !(row[c] < row[label]) : c > label && !(row[c] <= row[label])) ++count;
  }
  return count;
}

}  // namespace

LossSums softmax_cross_entropy(const Shape& shape, float label_smoothing, In logits,
                               const Batch& batch) {
  const auto classes = static_cast<std::size_t>(shape.c);
  LossSums sums;
  sums.samples = batch.valid;
  for (std::size_t n = 0; n < static_cast<std::size_t>(batch.valid); ++n) {
    const In row = logits.subspan(n * classes, classes);
    const Target target = target_of(batch, n);
    sums.loss += row_loss(row, target, label_smoothing);
    const int before = classes_before(row, target.greater());
    if (before == 0) ++sums.correct;
    if (before < 5) ++sums.correct_top5;
  }
  return sums;
}

void softmax_cross_entropy_gradient(const Shape& shape, float label_smoothing, In logits,
                                    const Batch& batch, Out d_logits) {
  const auto classes = static_cast<std::size_t>(shape.c);
  const double background = static_cast<double>(label_smoothing) / static_cast<double>(classes);
  std::ranges::fill(d_logits, 0.0F);
  for (std::size_t n = 0; n < static_cast<std::size_t>(batch.valid); ++n) {
    const In row = logits.subspan(n * classes, classes);
    const Target wanted = target_of(batch, n);
    const Normaliser norm = normaliser(row);
    for (std::size_t c = 0; c < classes; ++c) {
      const double probability = std::exp(row[c] - norm.maximum) / norm.sum;
      const double target = background + (1 - static_cast<double>(label_smoothing)) * wanted.at(c);
      d_logits[n * classes + c] = static_cast<float>((probability - target) / batch.global_count);
    }
  }
}

}  // namespace coxswain::backend
