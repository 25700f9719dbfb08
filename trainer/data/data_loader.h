#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "trainer/data/bad_samples.h"
#include "trainer/data/dataset.h"
#include "trainer/data/preprocessor.h"

namespace coxswain::data {

// Value. One batch to prepare: whose rows, in which epoch, padded to how many rows with the first
// row's copy (with sample 0 when there is no row).
struct BatchRequest {
  std::vector<std::int64_t> sample_ids;
  std::int64_t epoch = 0;
  std::int64_t rows = 0;  // >= sample_ids.size(); 0 = sample_ids.size()
  // Where training mixes samples, the first one's partner; each other's is the one before it.
  std::int64_t before = -1;
};

// Value. A prepared batch; `sample_ids` and `labels` have images' number of rows.
struct HostBatch {
  std::vector<std::uint8_t> images;  // (N, H, W, C)
  std::vector<std::int32_t> labels;
  std::vector<std::int64_t> sample_ids;
  std::vector<std::int32_t> partner_labels;  // where samples are mixed, else empty
  std::vector<float> shares;                 // of `labels`; the rest is the partners'
  std::int64_t valid = 0;                    // rows before padding
  std::int64_t epoch = 0;
};

struct LoaderOptions {
  Preprocessing preprocessing;
  bool training = true;
  std::uint64_t seed = 0;
  int depth = 4;                    // batches prepared ahead
  int workers = 1;                  // threads that share the rows of a batch
  BadSampleLog* skipped = nullptr;  // takes note of bad samples, which are passed over; none: throw
};

// Resource. Prepares batches on threads of its own, a bounded number ahead, in the order of
// `next_request`, which is called on one of them at a time until it returns nothing. A row depends
// on its sample alone: any number of threads makes the same batches. A bad sample that is passed
// over gives its row, and its label, to the next one that is whole; in evaluation to nobody: there
// are fewer valid rows then. Buffers are reused: no allocation once warm. The dataset must outlive
// it; throws Error (65) when the preprocessing does not suit its samples.
class DataLoader {
 public:
  using NextRequest = std::function<std::optional<BatchRequest>()>;

  DataLoader(const Dataset& dataset, LoaderOptions options, NextRequest next_request);
  ~DataLoader();
  DataLoader(const DataLoader&) = delete;
  DataLoader& operator=(const DataLoader&) = delete;

  // The next batch, or nullptr after the last. Valid until the next call. Rethrows what a thread
  // threw, of the first row that failed, after the batches before. From one thread at a time.
  const HostBatch* next();

  // What makes the images' bytes what the model reads; see tensor::Pixels.
  std::span<const float> table() const;

  // Time that next() spent waiting so far: the job is input-bound when this is a good part of the
  // run.
  double seconds_waited() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Asks for the rows from `first` to before `last` once, each or every `stride`-th, `batch` at a
// time.
DataLoader::NextRequest in_order(std::int64_t first, std::int64_t last, std::int64_t batch,
                                 std::int64_t stride = 1);

}  // namespace coxswain::data
