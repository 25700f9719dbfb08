#include "trainer/data/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <limits>
#include <numeric>
#include <utility>

#include "trainer/contract/error.h"
#include "trainer/tensor/philox.h"

namespace coxswain::data {

namespace {

// The words of one permutation: counter (part, epoch, "shuffle", 0, 1, ...).
class Words {
 public:
  Words(std::uint64_t seed, std::int64_t part, std::int64_t epoch)
      : seed_(seed),
        counter_{static_cast<std::uint32_t>(part), static_cast<std::uint32_t>(epoch),
                 tensor::stream_of("shuffle"), 0} {}

  // Uniform in [0, bound), without bias (Lemire, "Fast random integer generation in an interval",
  // ACM TOMACS 2019, algorithm 5).
  std::uint32_t below(std::uint32_t bound) {
    std::uint64_t product = std::uint64_t{next()} * bound;
    if (static_cast<std::uint32_t>(product) < bound) {
      const std::uint32_t threshold = (0U - bound) % bound;
      while (static_cast<std::uint32_t>(product) < threshold) {
        product = std::uint64_t{next()} * bound;
      }
    }
    return static_cast<std::uint32_t>(product >> 32);
  }

 private:
  std::uint32_t next() {
    if (used_ == block_.size()) {
      block_ = tensor::philox(seed_, counter_);
      ++counter_.index;
      used_ = 0;
    }
    return block_[used_++];
  }

  std::uint64_t seed_;
  tensor::PhiloxCounter counter_;
  std::array<std::uint32_t, 4> block_{};
  std::size_t used_ = block_.size();
};

// The order of one part in one epoch (Fisher-Yates, from the end).
void order_part(const SamplerOptions& options, std::int64_t part, std::int64_t epoch,
                std::span<std::int64_t> ids) {
  std::iota(ids.begin(), ids.end(), part * static_cast<std::int64_t>(ids.size()));
  if (options.split == Split::kContiguous) return;
  Words words(options.seed, part, epoch);
  for (std::size_t left = ids.size(); left > 1; --left) {
    std::swap(ids[left - 1], ids[words.below(static_cast<std::uint32_t>(left))]);
  }
}

std::int64_t divided_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

int parts_of(const SamplerOptions& options) {
  return options.split == Split::kShuffle ? 1 : options.world_size;
}

// Rows of an epoch, without the tail that parts of one length leave.
std::int64_t usable_rows(const SamplerOptions& options) {
  return options.dataset_size / parts_of(options) * parts_of(options);
}

void check(const SamplerOptions& options) {
  const std::int64_t usable = usable_rows(options);
  assert(options.world_size >= 1 && options.global_batch >= 1);
  const std::int64_t n = options.dataset_size;
  if (n < 1 || n > std::numeric_limits<std::uint32_t>::max()) {
    throw Error(ExitCode::kBadInput, fmt::format("[data] {} samples: expected 1 to {}", n,
                                                 std::numeric_limits<std::uint32_t>::max()));
  }
  if (usable == 0) {
    throw Error(ExitCode::kBadInput,
                fmt::format("[data] too few samples for {} ranks: {}; use fewer ranks, or "
                            "data.split: shuffle",
                            options.world_size, n));
  }
  if (options.last_batch == LastBatch::kDiscard && usable < options.global_batch) {
    throw Error(ExitCode::kBadInput,
                fmt::format("[data] {} samples do not fill one batch of {} and lastBatch is "
                            "discard; lower batchSize, or use keep",
                            usable, options.global_batch));
  }
}

}  // namespace

RowRange cut(std::int64_t count, int index, int parts) {
  return {index * count / parts, (index + 1) * count / parts};
}

EpochPlace beginning_of(const SamplerOptions& options, std::int64_t epoch) {
  if (options.last_batch != LastBatch::kRollover) return {};
  return {.rolled_over = epoch * usable_rows(options) % options.global_batch, .done = 0};
}

std::int64_t steps_of(const SamplerOptions& options, std::int64_t epochs, EpochPlace from) {
  check(options);
  if (epochs == 0) return 0;
  const std::int64_t usable = usable_rows(options);
  const std::int64_t batch = options.global_batch;
  const std::int64_t first = std::max<std::int64_t>(0, from.rolled_over + usable - from.done);
  switch (options.last_batch) {
    case LastBatch::kKeep:
      return divided_up(first, batch) + (epochs - 1) * divided_up(usable, batch);
    case LastBatch::kDiscard:
      return first / batch + (epochs - 1) * (usable / batch);
    case LastBatch::kRollover:  // all epochs are one stream cut into full batches
      return (first + (epochs - 1) * usable) / batch;
  }
  return 0;
}

EpochOrder::EpochOrder(const SamplerOptions& options, std::int64_t epoch, EpochPlace from)
    : options_(options), num_parts_(parts_of(options)), from_(from) {
  assert(epoch >= 0);
  check(options);
  const std::int64_t part = options.dataset_size / num_parts_;
  from_.rolled_over = std::min(from.rolled_over, epoch * part * num_parts_);
  steps_ = steps_of(options, 1, from_);
  rolled_rows_ = divided_up(from_.rolled_over, num_parts_);
  rows_ = rolled_rows_ + part;

  const std::int64_t first_epoch = epoch - divided_up(rolled_rows_, part);
  ids_.reserve(static_cast<std::size_t>(num_parts_ * rows_));
  std::vector<std::int64_t> whole(static_cast<std::size_t>(part));
  for (int p = 0; p < num_parts_; ++p) {
    for (std::int64_t e = first_epoch; e <= epoch; ++e) {
      order_part(options, p, e, whole);
      const std::int64_t used = e == first_epoch ? rows_ - (epoch - first_epoch) * part : part;
      ids_.insert(ids_.end(), whole.end() - used, whole.end());
    }
  }
}

EpochPlace EpochOrder::next() const {
  if (options_.last_batch != LastBatch::kRollover) return {};
  const std::int64_t left = from_.rolled_over + usable_rows(options_) - from_.done;
  return {.rolled_over = std::max<std::int64_t>(0, left - steps_ * options_.global_batch),
          .done = 0};
}

std::int64_t EpochOrder::global_count(std::int64_t step) const {
  assert(step >= 0 && step < steps_);
  if (options_.last_batch != LastBatch::kKeep) return options_.global_batch;
  const std::int64_t left = from_.rolled_over + usable_rows(options_) - from_.done;
  return std::min(options_.global_batch, left - step * options_.global_batch);
}

std::span<const std::int64_t> EpochOrder::part_rows(std::int64_t step, int part) const {
  assert(step >= 0 && step < steps_);
  const auto row_at = [&](std::int64_t s) {
    const std::int64_t done = from_.done + s * options_.global_batch;
    const std::int64_t row =
        (done + part + rolled_rows_ * num_parts_ - from_.rolled_over) / num_parts_;
    return static_cast<std::size_t>(std::min(row, rows_));
  };
  const auto start = static_cast<std::size_t>(part * rows_);
  return std::span(ids_).subspan(start + row_at(step), row_at(step + 1) - row_at(step));
}

std::span<const std::int64_t> EpochOrder::rank_rows(std::int64_t step, int rank) const {
  assert(rank >= 0 && rank < options_.world_size);
  if (options_.split != Split::kShuffle) return part_rows(step, rank);
  return shard_rows(step, rank, options_.world_size);
}

std::span<const std::int64_t> EpochOrder::shard_rows(std::int64_t step, int shard,
                                                     int num_shards) const {
  assert(options_.split == Split::kShuffle);
  assert(shard >= 0 && shard < num_shards);
  const std::span<const std::int64_t> rows = part_rows(step, 0);
  const RowRange range = cut(static_cast<std::int64_t>(rows.size()), shard, num_shards);
  return rows.subspan(static_cast<std::size_t>(range.first),
                      static_cast<std::size_t>(range.last - range.first));
}

}  // namespace coxswain::data
