#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "trainer/backend/executable.h"
#include "trainer/comm/communicator.h"
#include "trainer/data/dataset.h"
#include "trainer/train/train_options.h"

namespace coxswain::train {

// What a step is made of. kFinish is all from the last backward to the new weights.
enum class Part { kStep, kLoad, kDecode, kForward, kBackward, kWait, kUpdate, kFinish, kSave };
constexpr Words<Part, 9> words_of(Part) {
  return {{{Part::kStep, "step"},
           {Part::kLoad, "load"},
           {Part::kDecode, "decode"},
           {Part::kForward, "forward"},
           {Part::kBackward, "backward"},
           {Part::kWait, "wait"},
           {Part::kUpdate, "update"},
           {Part::kFinish, "finish"},
           {Part::kSave, "save"}}};
}

// Resource. What this rank does in some steps, and when; a span may be told on any thread.
class Timeline {
 public:
  using Clock = std::chrono::steady_clock;
  using Now = std::function<Clock::time_point()>;

  Timeline(const TimelineOptions& options, Now now) : options_(options), now_(std::move(now)) {}

  // The step that begins, from 1.
  void begin_step(std::int64_t step);
  bool is_on() const { return on_.load(std::memory_order_relaxed); }
  bool ends_with(std::int64_t step) const { return step == options_.last_step; }
  bool has_spans() const;
  Clock::time_point now() const { return now_(); }
  // `name` must live as long as this; with `number` behind it, if that is not below 0.
  void add(Part part, std::string_view name, std::int64_t number, Clock::time_point start);

  // All ranks' spans on rank 0's clock as Chrome's trace events; every rank calls it, between two
  // steps. Empty on the others.
  std::string gather(comm::Communicator& communicator) const;

 private:
  struct Span {
    Part part;
    std::string_view name;
    std::int64_t number;
    std::int64_t step;
    int thread;
    Clock::time_point start;
    Clock::time_point end;
  };

  struct Thread {
    std::thread::id id;
    std::size_t newest_span = 0;
  };

  std::string events(int rank, Clock::duration ahead) const;

  const TimelineOptions options_;
  const Now now_;
  std::atomic<bool> on_ = false;
  mutable std::mutex mutex_;
  std::int64_t step_ = 0;        // guarded by mutex_
  std::vector<Thread> threads_;  // guarded by mutex_
  std::vector<Span> spans_;      // guarded by mutex_
};

// Tells of its own lifetime, if there is a timeline that is on.
class Timed {
 public:
  Timed(Timeline* timeline, Part part, std::string_view name = {}, std::int64_t number = -1)
      : timeline_(timeline != nullptr && timeline->is_on() ? timeline : nullptr),
        part_(part),
        name_(name),
        number_(number) {
    if (timeline_ != nullptr) start_ = timeline_->now();
  }
  ~Timed() {
    if (timeline_ != nullptr) timeline_->add(part_, name_, number_, start_);
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  Timeline* timeline_;
  Part part_;
  std::string_view name_;
  std::int64_t number_;
  Timeline::Clock::time_point start_;
};

// View. An executable whose steps are told, each by its layer.
class TimedExecutable : public backend::Executable {
 public:
  TimedExecutable(backend::Executable& inner, Timeline& timeline)
      : inner_(inner), timeline_(timeline) {}

  const graph::Program& program() const override { return inner_.program(); }
  void load(const backend::Batch& batch) override;
  void run(int step_index) override;
  backend::LossSums sums() const override { return inner_.sums(); }
  void write_sums(const tensor::Slice& control) const override { inner_.write_sums(control); }
  void parameters_changed() override { inner_.parameters_changed(); }
  std::vector<float> fetch(int edge) override { return inner_.fetch(edge); }
  void store(int edge, std::span<const float> values) override { inner_.store(edge, values); }

 private:
  backend::Executable& inner_;
  Timeline& timeline_;
};

// View. A dataset whose reading is told.
class TimedDataset : public data::Dataset {
 public:
  TimedDataset(const data::Dataset& inner, Timeline& timeline)
      : inner_(inner), timeline_(timeline) {}

  std::int64_t size() const override { return inner_.size(); }
  tensor::Shape sample_shape() const override { return inner_.sample_shape(); }
  std::int64_t classes() const override { return inner_.classes(); }
  std::vector<std::string> class_names() const override { return inner_.class_names(); }
  std::int32_t label(std::int64_t id) const override { return inner_.label(id); }
  std::uint64_t content_hash() const override { return inner_.content_hash(); }
  augment::Image read(std::int64_t id, augment::Scratch& scratch) const override {
    const Timed timed(&timeline_, Part::kDecode);
    return inner_.read(id, scratch);
  }
  std::vector<std::uint8_t> stored(std::int64_t id) const override { return inner_.stored(id); }
  std::string class_name(std::int32_t label) const override { return inner_.class_name(label); }
  std::string name(std::int64_t id) const override { return inner_.name(id); }

 private:
  const data::Dataset& inner_;
  Timeline& timeline_;
};

}  // namespace coxswain::train
