#include <algorithm>
#include <array>

#include "trainer/backend/reference/operations.h"
#include "trainer/tensor/philox.h"

namespace coxswain::backend::reference {

namespace {

// Keeps an element with probability 1 - rate and scales it by 1 / (1 - rate), zeroes it otherwise.
// The draw depends on seed, sample id, epoch, the layer's name and the element's index in its
// sample, so that forward and backward draw the same.
void drop(const Work& w, In from) {
  const float rate = w.node.rate;
  const float scale = 1 / (1 - rate);
  const std::int64_t per_sample = w.node.shape.per_sample();
  const auto epoch = static_cast<std::uint32_t>(w.batch->epoch);
  const std::uint32_t stream = tensor::stream_of(w.node.name);
  for (std::size_t n = 0; n < w.batch->sample_ids.size(); ++n) {
    const auto sample = static_cast<std::uint32_t>(w.batch->sample_ids[n]);
    const std::size_t first = n * static_cast<std::size_t>(per_sample);
    std::array<std::uint32_t, 4> words{};
    for (std::int64_t i = 0; i < per_sample; ++i) {
      if (i % 4 == 0) {
        const auto index = static_cast<std::uint32_t>(i / 4);
        words = tensor::philox(w.batch->seed, {sample, epoch, stream, index});
      }
      const bool kept = tensor::to_uniform(words[static_cast<std::size_t>(i % 4)]) >= rate;
      const std::size_t at = first + static_cast<std::size_t>(i);
      w.out[at] = kept ? from[at] * scale : 0;
    }
  }
}

void forward(const Work& w) {
  if (w.training) return drop(w, w.x());
  std::ranges::copy(w.x(), w.out.begin());
}

void backward(const Work& w) { drop(w, w.d_y); }

}  // namespace

const Loops kDropout{.forward = forward, .backward_data = backward};

}  // namespace coxswain::backend::reference
