#include "trainer/train/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace coxswain::train {

namespace {

constexpr std::size_t kMostSpans = 200'000;         // of a rank; then images are left out
constexpr std::chrono::microseconds kLeastGap{20};  // images read one after the other are one span
constexpr int kRounds = 15;

std::int64_t nanoseconds(Timeline::Clock::duration time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
}

// In the microseconds of Chrome's trace events.
double microseconds(Timeline::Clock::duration time) {
  return static_cast<double>(nanoseconds(time)) / 1000;
}

// How far this rank's clock is ahead of rank 0's: ranks leave a barrier at nearly one time, and the
// middle one of several is taken.
Timeline::Clock::duration clock_ahead(comm::Communicator& communicator, const Timeline::Now& now) {
  using Times = std::array<std::int64_t, kRounds>;
  Times own{};
  for (std::int64_t& time : own) {
    communicator.barrier();
    time = nanoseconds(now().time_since_epoch());
  }
  Times first = own;
  communicator.broadcast(std::as_writable_bytes(std::span(first)), 0);
  for (std::size_t i = 0; i < own.size(); ++i) own[i] -= first[i];
  std::nth_element(own.begin(), own.begin() + kRounds / 2, own.end());
  return std::chrono::nanoseconds(own[kRounds / 2]);
}

// Of each rank, on all of them.
std::string gather_texts(comm::Communicator& communicator, const std::string& own) {
  std::string all;
  for (int rank = 0; rank < communicator.size(); ++rank) {
    std::string text = rank == communicator.rank() ? own : "";
    std::uint64_t size = text.size();
    communicator.broadcast(std::as_writable_bytes(std::span(&size, 1)), rank);
    text.resize(size);
    if (size > 0) communicator.broadcast(std::as_writable_bytes(std::span(text)), rank);
    all += text;
  }
  return all;
}

}  // namespace

void Timeline::begin_step(std::int64_t step) {
  const std::lock_guard lock(mutex_);
  step_ = step;
  on_.store(step >= options_.first_step && step <= options_.last_step, std::memory_order_relaxed);
}

bool Timeline::has_spans() const {
  const std::lock_guard lock(mutex_);
  return !spans_.empty();
}

void Timeline::add(Part part, std::string_view name, std::int64_t number, Clock::time_point start) {
  const Clock::time_point end = now_();
  const std::lock_guard lock(mutex_);
  const auto thread = std::ranges::find(threads_, std::this_thread::get_id(), &Thread::id);
  const auto place = static_cast<std::size_t>(thread - threads_.begin());
  if (thread == threads_.end()) {
    threads_.push_back({std::this_thread::get_id(), spans_.size()});
  } else if (part == Part::kDecode) {
    Span& before = spans_[thread->newest_span];
    const bool follows = before.part == part && start - before.end < kLeastGap;
    if (follows) before.end = end;
    if (follows || spans_.size() >= kMostSpans) return;
  }
  threads_[place].newest_span = spans_.size();
  spans_.push_back({part, name, number, step_, static_cast<int>(place), start, end});
}

std::string Timeline::events(int rank, Clock::duration ahead) const {
  const std::lock_guard lock(mutex_);
  std::string text =
      fmt::format(R"({{"name":"process_name","ph":"M","pid":{0},"args":{{"name":"rank {0}"}}}},)"
                  "\n",
                  rank);
  // The thread that makes steps, and those that load.
  const auto makes_steps = [](const Span& span) { return span.part == Part::kStep; };
  const auto step = std::ranges::find_if(spans_, makes_steps);
  for (int thread = 0; thread < std::ssize(threads_); ++thread) {
    const bool trains = step != spans_.end() && step->thread == thread;
    text +=
        fmt::format(R"({{"name":"thread_name","ph":"M","pid":{},"tid":{},"args":{{"name":"{}"}}}},)"
                    "\n",
                    rank, thread, trains ? "training" : "loading");
  }
  for (const Span& span : spans_) {
    std::string name(span.name.empty() ? word(span.part) : span.name);
    if (span.number >= 0) name += fmt::format(" {}", span.number);
    text += fmt::format(
        R"({{"name":"{}","cat":"{}","ph":"X","ts":{:.3f},"dur":{:.3f},"pid":{},"tid":{},)"
        R"("args":{{"step":{}}}}},)"
        "\n",
        name, word(span.part), microseconds((span.start - ahead).time_since_epoch()),
        microseconds(span.end - span.start), rank, span.thread, span.step);
  }
  return text;
}

std::string Timeline::gather(comm::Communicator& communicator) const {
  const Clock::duration ahead = clock_ahead(communicator, now_);
  std::string all = gather_texts(communicator, events(communicator.rank(), ahead));
  if (communicator.rank() != 0) return "";
  all.resize(all.size() - 2);  // the last comma
  return fmt::format("{{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n{}\n]}}\n", all);
}

void TimedExecutable::load(const backend::Batch& batch) {
  const Timed timed(&timeline_, Part::kForward, "batch to the device");
  inner_.load(batch);
}

void TimedExecutable::run(int step_index) {
  const graph::Program& program = inner_.program();
  const auto& step = program.steps[static_cast<std::size_t>(step_index)];
  const auto& node = program.graph.nodes[static_cast<std::size_t>(step.node)];
  const bool forward = step_index < program.first_backward;
  const Timed timed(&timeline_, forward ? Part::kForward : Part::kBackward, node.name);
  inner_.run(step_index);
}

}  // namespace coxswain::train
