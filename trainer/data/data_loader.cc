#include "trainer/data/data_loader.h"

#include <fmt/format.h>

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

constexpr int kMostInARow = 100;  // bad samples passed over for one row: then it is no accident

// A batch under way. Its rows are claimed in order and settle in any; who settles the last one
// finishes it.
struct Slot {
  std::unique_ptr<HostBatch> batch;
  std::size_t rows = 0;  // to prepare: of the padding the first alone; of a partner its own
  std::size_t claimed = 0;
  std::size_t settled = 0;
  std::size_t failed_row = SIZE_MAX;
  std::exception_ptr error = {};  // of that row; no more are claimed then
  bool is_done = false;

  bool is_claimable() const { return claimed < rows && error == nullptr; }
  bool is_settled() const { return settled == claimed && !is_claimable(); }
};

constexpr std::int32_t kPassedOver = -1;  // in place of its label, in evaluation

// Lays out a batch that may have been used before. Where samples are mixed the last row, of one
// more, is the first one's partner: prepared, unless it is of the batch too.
Slot make_slot(const Dataset& dataset, std::size_t sample, bool mixes, BatchRequest request,
               std::unique_ptr<HostBatch> batch) {
  const std::size_t valid = request.sample_ids.size();
  assert(request.rows == 0 || request.rows >= static_cast<std::int64_t>(valid));
  const bool has_partner = mixes && valid > 0;
  const bool is_partner_within = has_partner && request.sample_ids.back() == request.before;
  assert(!has_partner || (request.rows == 0 && request.before >= 0));
  if (has_partner) request.sample_ids.push_back(request.before);
  const std::size_t rows =
      request.rows == 0 ? request.sample_ids.size() : static_cast<std::size_t>(request.rows);
  batch->valid = static_cast<std::int64_t>(valid);
  batch->epoch = request.epoch;
  batch->images.resize(rows * sample);
  batch->sample_ids = std::move(request.sample_ids);
  batch->sample_ids.resize(rows, valid > 0 ? batch->sample_ids.front() : 0);
  batch->partner_labels.clear();
  batch->shares.clear();
  batch->labels.resize(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    batch->labels[row] = dataset.label(batch->sample_ids[row]);
  }
  return {.batch = std::move(batch), .rows = std::min(rows, valid + (is_partner_within ? 0 : 1))};
}

[[noreturn]] void fail(const Dataset& dataset, std::int64_t id, const BadSample& bad) {
  throw Error(bad.code(), fmt::format("[data] {}: {}", dataset.name(id), bad.what()));
}

void copy_image(HostBatch& batch, std::size_t sample, std::size_t from, std::size_t to) {
  std::copy_n(batch.images.data() + from * sample, sample, batch.images.data() + to * sample);
}

// The rest of the padding, as its first row.
void pad(HostBatch& batch, std::size_t sample) {
  const auto valid = static_cast<std::size_t>(batch.valid);
  for (std::size_t row = valid + 1; row < batch.labels.size(); ++row) {
    copy_image(batch, sample, valid, row);
  }
}

// Puts the rows that were passed over behind the valid ones, as padding.
void leave_out(HostBatch& batch, std::size_t sample) {
  std::size_t to = 0;
  for (std::size_t row = 0; row < static_cast<std::size_t>(batch.valid); ++row) {
    if (batch.labels[row] == kPassedOver) continue;
    if (to != row) {
      copy_image(batch, sample, row, to);
      std::swap(batch.labels[to], batch.labels[row]);
      std::swap(batch.sample_ids[to], batch.sample_ids[row]);
    }
    ++to;
  }
  batch.valid = static_cast<std::int64_t>(to);
}

// Each row with the one before it, as that was prepared: hence from the last one on.
void mix(HostBatch& batch, std::size_t sample, std::uint64_t seed,
         const Preprocessor& preprocessor) {
  const std::size_t rows = batch.labels.size() - 1;  // and the first one's partner
  const std::span images(batch.images);
  batch.partner_labels.resize(rows);
  batch.shares.resize(rows);
  for (std::size_t row = rows; row-- > 0;) {
    const std::size_t partner = row == 0 ? rows : row - 1;
    batch.partner_labels[row] = batch.labels[partner];
    batch.shares[row] = preprocessor.mix({seed, batch.sample_ids[row], batch.epoch},
                                         images.subspan(partner * sample, sample),
                                         images.subspan(row * sample, sample));
  }
  batch.labels.resize(rows);
  batch.sample_ids.resize(rows);
  batch.images.resize(rows * sample);
}

}  // namespace

struct DataLoader::State {
  State(const Dataset& the_dataset, LoaderOptions the_options, NextRequest the_next_request)
      : dataset(the_dataset),
        options(std::move(the_options)),
        next_request(std::move(the_next_request)) {
    assert(options.depth >= 1 && options.workers >= 1);
    const Preprocessor preprocessor(options.preprocessing, dataset.sample_shape(),
                                    options.training);
    mixes = preprocessor.mixes();
    sample = static_cast<std::size_t>(preprocessor.result().per_sample());
    table.assign(preprocessor.table().begin(), preprocessor.table().end());
    for (int i = 0; i < options.workers; ++i) {
      threads.emplace_back(
          [this, preprocessor](const std::stop_token& stop) { work(stop, preprocessor); });
    }
  }

  void work(const std::stop_token& stop, Preprocessor preprocessor) {
    augment::Scratch scratch;
    std::unique_lock lock(mutex);
    const auto has_work = [&] { return claimable() != nullptr || may_ask() || ended; };
    while (work_came.wait(lock, stop, has_work) && !stop.stop_requested()) {
      if (Slot* slot = claimable()) {
        prepare_some(lock, *slot, preprocessor, scratch);
      } else if (may_ask()) {
        ask(lock);
      } else {
        return;
      }
    }
  }

  Slot* claimable() {
    const auto found = std::ranges::find_if(slots, &Slot::is_claimable);
    return found == slots.end() ? nullptr : &*found;
  }

  bool may_ask() const {
    return !asking && !ended && slots.size() < static_cast<std::size_t>(options.depth);
  }

  // One thread alone takes the whole batch; of several each takes a part, and comes again.
  std::size_t share(const Slot& slot) const {
    const auto workers = static_cast<std::size_t>(options.workers);
    const std::size_t parts = workers == 1 ? 1 : 4 * workers;
    return std::min((slot.rows + parts - 1) / parts, slot.rows - slot.claimed);
  }

  void prepare_some(std::unique_lock<std::mutex>& lock, Slot& slot, Preprocessor& preprocessor,
                    augment::Scratch& scratch) {
    std::size_t row = slot.claimed;
    const std::size_t count = share(slot);
    slot.claimed += count;
    const std::size_t end = slot.claimed;
    lock.unlock();
    std::exception_ptr thrown;
    try {
      for (; row < end; ++row) {
        prepare_row(*slot.batch, row, preprocessor, scratch);
      }
    } catch (...) {
      thrown = std::current_exception();
    }
    lock.lock();
    slot.settled += count;
    if (thrown != nullptr && row < slot.failed_row) {
      slot.failed_row = row;
      slot.error = thrown;
      ended = true;
    }
    if (slot.is_settled()) finish(lock, slot, preprocessor);
  }

  void finish(std::unique_lock<std::mutex>& lock, Slot& slot, const Preprocessor& preprocessor) {
    if (slot.error == nullptr) {
      lock.unlock();
      HostBatch& batch = *slot.batch;
      if (!options.training && options.skipped != nullptr) leave_out(batch, sample);
      if (mixes && batch.valid > 0) {
        const auto partner = static_cast<std::size_t>(batch.valid);
        if (slot.rows == partner) repeat_last(batch);
        mix(batch, sample, options.seed, preprocessor);
      } else {
        pad(batch, sample);
      }
      lock.lock();
    }
    slot.is_done = true;
    batch_came.notify_one();
  }

  // The last sample is the first one's partner.
  void repeat_last(HostBatch& batch) const {
    const std::size_t partner = batch.labels.size() - 1;
    copy_image(batch, sample, partner - 1, partner);
    batch.labels[partner] = batch.labels[partner - 1];
  }

  void prepare_row(HostBatch& batch, std::size_t row, Preprocessor& preprocessor,
                   augment::Scratch& scratch) {
    std::int64_t id = batch.sample_ids[row];
    for (int passed_over = 0;; ++passed_over) {
      try {
        preprocessor.run({options.seed, id, batch.epoch}, dataset.read(id, scratch),
                         std::span(batch.images).subspan(row * sample, sample));
        if (passed_over > 0) batch.labels[row] = dataset.label(id);
        return;
      } catch (const BadSample& bad) {
        if (options.skipped == nullptr || passed_over == kMostInARow) fail(dataset, id, bad);
        options.skipped->add(dataset.name(id), bad.what());
        if (!options.training && std::cmp_less(row, batch.valid)) {
          batch.labels[row] = kPassedOver;
          return;
        }
        id = (id + 1) % dataset.size();
      }
    }
  }

  void ask(std::unique_lock<std::mutex>& lock) {
    asking = true;
    std::unique_ptr<HostBatch> batch;
    if (!spare.empty()) {
      batch = std::move(spare.back());
      spare.pop_back();
    }
    lock.unlock();
    std::optional<Slot> slot;
    std::exception_ptr caught;
    try {
      if (std::optional<BatchRequest> request = next_request()) {
        if (batch == nullptr) batch = std::make_unique<HostBatch>();
        slot = make_slot(dataset, sample, mixes, std::move(*request), std::move(batch));
      }
    } catch (...) {
      caught = std::current_exception();
    }
    lock.lock();
    asking = false;
    if (slot) {
      slot->is_done = slot->rows == 0;
      slots.push_back(std::move(*slot));
    } else {
      ended = true;
      error = caught;
    }
    work_came.notify_all();
    if (ended || slots.back().is_done) batch_came.notify_one();
  }

  const Dataset& dataset;
  const LoaderOptions options;
  const NextRequest next_request;  // called by the thread that asks
  std::size_t sample = 0;          // bytes of a prepared image
  bool mixes = false;
  std::vector<float> table;

  mutable std::mutex mutex;
  std::condition_variable_any work_came;  // rows to claim, room for a batch, or the end
  std::condition_variable batch_came;     // the first is done, or the end
  std::deque<Slot> slots;                 // in the order of their requests
  std::vector<std::unique_ptr<HostBatch>> spare;
  std::unique_ptr<HostBatch> current;
  bool asking = false;
  bool ended = false;        // no more is asked for
  std::exception_ptr error;  // of next_request
  std::chrono::steady_clock::duration waited{};

  std::vector<std::jthread> threads;  // last: stopped and joined before anything that they use goes
};

DataLoader::DataLoader(const Dataset& dataset, LoaderOptions options, NextRequest next_request)
    : state_(std::make_unique<State>(dataset, std::move(options), std::move(next_request))) {}

DataLoader::~DataLoader() = default;

std::span<const float> DataLoader::table() const { return state_->table; }

const HostBatch* DataLoader::next() {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  if (s.current != nullptr) s.spare.push_back(std::move(s.current));
  const auto answerable = [&] {
    return s.slots.empty() ? s.ended && !s.asking : s.slots.front().is_done;
  };
  if (!answerable()) {
    const auto start = std::chrono::steady_clock::now();
    s.batch_came.wait(lock, answerable);
    s.waited += std::chrono::steady_clock::now() - start;
  }
  const std::exception_ptr error = s.slots.empty() ? s.error : s.slots.front().error;
  if (error != nullptr) std::rethrow_exception(error);
  if (s.slots.empty()) return nullptr;
  s.current = std::move(s.slots.front().batch);
  s.slots.pop_front();
  s.work_came.notify_one();
  return s.current.get();
}

double DataLoader::seconds_waited() const {
  const std::lock_guard lock(state_->mutex);
  return std::chrono::duration<double>(state_->waited).count();
}

DataLoader::NextRequest in_order(std::int64_t first, std::int64_t last, std::int64_t batch,
                                 std::int64_t stride) {
  return [next = first, last, batch, stride]() mutable -> std::optional<BatchRequest> {
    if (next >= last) return std::nullopt;
    BatchRequest request;
    request.rows = batch;
    for (; next < last && std::ssize(request.sample_ids) < batch; next += stride)
      request.sample_ids.push_back(next);
    return request;
  };
}

}  // namespace coxswain::data
