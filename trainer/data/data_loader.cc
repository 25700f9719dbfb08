#include "trainer/data/data_loader.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

namespace coxswain::data {

namespace {

// Fills a batch that may have been used before.
void prepare(const Dataset& dataset, std::uint64_t seed, Preprocessor& preprocessor,
             augment::Scratch& scratch, const BatchRequest& request, HostBatch& batch) {
  const std::size_t valid = request.sample_ids.size();
  assert(request.rows == 0 || request.rows >= static_cast<std::int64_t>(valid));
  const std::size_t rows = request.rows == 0 ? valid : static_cast<std::size_t>(request.rows);
  const auto sample = static_cast<std::size_t>(dataset.sample_shape().per_sample());
  batch.valid = static_cast<std::int64_t>(valid);
  batch.epoch = request.epoch;
  batch.images.resize(rows * sample);
  batch.labels.resize(rows);
  batch.sample_ids.resize(rows);
  const std::int64_t filler = valid > 0 ? request.sample_ids.front() : 0;
  for (std::size_t row = 0; row < rows; ++row) {
    const std::int64_t id = row < valid ? request.sample_ids[row] : filler;
    batch.sample_ids[row] = id;
    batch.labels[row] = dataset.label(id);
    const std::span<float> out(batch.images.data() + row * sample, sample);
    if (row > valid) {  // a copy of the first padding row
      std::copy_n(batch.images.data() + valid * sample, sample, out.data());
    } else {
      preprocessor.run({seed, id, request.epoch}, dataset.read(id, scratch), out);
    }
  }
}

}  // namespace

struct DataLoader::State {
  State(const Dataset& the_dataset, LoaderOptions the_options, NextRequest the_next_request)
      : dataset(the_dataset),
        options(std::move(the_options)),
        next_request(std::move(the_next_request)),
        preprocessor(options.preprocessing, dataset.sample_shape(), options.training) {
    assert(options.depth >= 1);
    thread = std::jthread([this](const std::stop_token& stop) { produce(stop); });
  }

  void produce(const std::stop_token& stop) {
    std::exception_ptr caught;
    try {
      while (std::optional<BatchRequest> request = next_request()) {
        std::unique_ptr<HostBatch> batch = take_free(stop);
        if (batch == nullptr) return;
        prepare(dataset, options.seed, preprocessor, scratch, *request, *batch);
        const std::lock_guard lock(mutex);
        ready.push_back(std::move(batch));
        changed.notify_all();
      }
    } catch (...) {
      caught = std::current_exception();
    }
    const std::lock_guard lock(mutex);
    error = caught;
    finished = true;
    changed.notify_all();
  }

  // A batch to fill, once the queue has room; nullptr when asked to stop.
  std::unique_ptr<HostBatch> take_free(const std::stop_token& stop) {
    std::unique_lock lock(mutex);
    const auto has_room = [&] { return ready.size() < static_cast<std::size_t>(options.depth); };
    if (!changed.wait(lock, stop, has_room) || stop.stop_requested()) return nullptr;
    if (spare.empty()) return std::make_unique<HostBatch>();
    std::unique_ptr<HostBatch> batch = std::move(spare.back());
    spare.pop_back();
    return batch;
  }

  // Used by the thread alone, once it runs.
  const Dataset& dataset;
  const LoaderOptions options;
  const NextRequest next_request;
  Preprocessor preprocessor;
  augment::Scratch scratch;

  mutable std::mutex mutex;
  std::condition_variable_any changed;  // any of the members below
  std::deque<std::unique_ptr<HostBatch>> ready;
  std::vector<std::unique_ptr<HostBatch>> spare;
  std::unique_ptr<HostBatch> current;
  bool finished = false;
  std::exception_ptr error;
  std::chrono::steady_clock::duration waited{};

  std::jthread thread;  // last: stopped and joined before anything that it uses goes
};

DataLoader::DataLoader(const Dataset& dataset, LoaderOptions options, NextRequest next_request)
    : state_(std::make_unique<State>(dataset, std::move(options), std::move(next_request))) {}

DataLoader::~DataLoader() = default;

const HostBatch* DataLoader::next() {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  if (s.current != nullptr) s.spare.push_back(std::move(s.current));
  const auto answerable = [&] { return !s.ready.empty() || s.finished; };
  if (!answerable()) {
    const auto start = std::chrono::steady_clock::now();
    s.changed.wait(lock, answerable);
    s.waited += std::chrono::steady_clock::now() - start;
  }
  if (s.ready.empty()) {
    if (s.error != nullptr) std::rethrow_exception(s.error);
    return nullptr;
  }
  s.current = std::move(s.ready.front());
  s.ready.pop_front();
  s.changed.notify_all();
  return s.current.get();
}

double DataLoader::seconds_waited() const {
  const std::lock_guard lock(state_->mutex);
  return std::chrono::duration<double>(state_->waited).count();
}

}  // namespace coxswain::data
