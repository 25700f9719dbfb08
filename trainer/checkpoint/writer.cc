#include "trainer/checkpoint/writer.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "trainer/checkpoint/publisher.h"
#include "trainer/contract/error.h"

namespace coxswain::checkpoint {

namespace {

using Clock = std::chrono::steady_clock;
using MakeContents = std::function<Contents()>;

// A tenth of a core's share beside the threads that compute (sched(7), nice values): a save takes
// little from a step, and still ends soon.
constexpr int kNice = 10;

struct Outcome {
  SaveResult result;
  int failures_in_a_row = 0;
};

Outcome save(Publisher& publisher, const MakeContents& make_contents) {
  Outcome outcome;
  const auto started = Clock::now();
  try {
    const Contents contents = make_contents();
    outcome.result.step = contents.state.step;
    Published published = publisher.publish(contents);
    outcome.result.path = std::move(published.path);
    outcome.result.bytes = published.bytes;
  } catch (const Error& error) {
    outcome.result.code = error.code();
    outcome.result.error = error.what();
  } catch (const std::exception& error) {
    outcome.result.code = ExitCode::kInternal;
    outcome.result.error = fmt::format("[checkpoint] save failed: {}", error.what());
  }
  outcome.result.seconds = std::chrono::duration<double>(Clock::now() - started).count();
  return outcome;
}

}  // namespace

struct Writer::Impl {
  Impl(WriterOptions given, std::shared_ptr<FileSystem> file_system)
      : options(std::move(given)),
        files(std::move(file_system)),
        publisher(*files, options.directory, options.keep, options.new_run, options.keep_epochs) {}

  void run();
  void begin(MakeContents make_contents);  // with the lock held
  bool wait_until_idle(std::unique_lock<std::mutex>& lock);
  SaveResult checked(Outcome outcome) const;
  [[noreturn]] void report_stall() const;

  const WriterOptions options;
  const std::shared_ptr<FileSystem> files;
  Publisher publisher;  // the thread's alone after construction

  std::mutex mutex;  // guards all below
  std::condition_variable changed;
  MakeContents pending;
  bool busy = false;
  bool stopping = false;
  Clock::time_point started;
  std::deque<Outcome> outcomes;
  int failures_in_a_row = 0;
  std::int64_t skipped = 0;

  std::jthread thread;
};

void Writer::Impl::run() {
  const auto self = static_cast<id_t>(::gettid());
  ::setpriority(PRIO_PROCESS, self, std::max(kNice, ::getpriority(PRIO_PROCESS, self)));
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [this] { return pending || stopping; });
    if (!pending) return;
    const MakeContents make_contents = std::exchange(pending, nullptr);
    lock.unlock();
    Outcome outcome = save(publisher, make_contents);
    lock.lock();
    failures_in_a_row = outcome.result.code == ExitCode::kDone ? 0 : failures_in_a_row + 1;
    outcome.failures_in_a_row = failures_in_a_row;
    outcomes.push_back(std::move(outcome));
    busy = false;
    changed.notify_all();
  }
}

void Writer::Impl::begin(MakeContents make_contents) {
  pending = std::move(make_contents);
  busy = true;
  started = Clock::now();
  changed.notify_all();
}

bool Writer::Impl::wait_until_idle(std::unique_lock<std::mutex>& lock) {
  return changed.wait_until(lock, started + options.stall_limit, [this] { return !busy; });
}

SaveResult Writer::Impl::checked(Outcome outcome) const {
  if (outcome.result.code == ExitCode::kPeerLost)
    throw Error(outcome.result.code, outcome.result.error);
  if (outcome.failures_in_a_row >= options.max_failures) {
    throw Error(outcome.result.code, fmt::format("{} ({} saves failed in a row)",
                                                 outcome.result.error, outcome.failures_in_a_row));
  }
  return std::move(outcome.result);
}

void Writer::Impl::report_stall() const {
  throw Error(ExitCode::kVolume,
              fmt::format("[checkpoint] a save to {} did not end in {} s: is the volume gone?",
                          options.directory.string(), options.stall_limit.count()));
}

Writer::Writer(WriterOptions options)
    : Writer(std::move(options), std::make_shared<PosixFileSystem>()) {}

Writer::Writer(WriterOptions options, std::shared_ptr<FileSystem> files)
    : impl_(std::make_shared<Impl>(std::move(options), std::move(files))) {
  impl_->thread = std::jthread([impl = impl_] { impl->run(); });
}

Writer::~Writer() {
  std::unique_lock lock(impl_->mutex);
  impl_->stopping = true;
  impl_->changed.notify_all();
  const bool idle = impl_->wait_until_idle(lock);
  lock.unlock();
  if (idle) {
    impl_->thread.join();
  } else {
    impl_->thread.detach();
  }
}

std::int64_t Writer::generation() const { return impl_->publisher.generation(); }

bool Writer::start_save(std::function<Contents()> contents) {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->busy) {
    ++impl_->skipped;
    return false;
  }
  impl_->begin(std::move(contents));
  return true;
}

void Writer::wait() {
  std::unique_lock lock(impl_->mutex);
  if (!impl_->wait_until_idle(lock)) impl_->report_stall();
}

std::optional<SaveResult> Writer::poll() {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->outcomes.empty()) {
    const bool stalled = impl_->busy && Clock::now() > impl_->started + impl_->options.stall_limit;
    if (stalled) impl_->report_stall();
    return std::nullopt;
  }
  Outcome outcome = std::move(impl_->outcomes.front());
  impl_->outcomes.pop_front();
  return impl_->checked(std::move(outcome));
}

SaveResult Writer::save_now(std::function<Contents()> contents) {
  std::unique_lock lock(impl_->mutex);
  if (!impl_->wait_until_idle(lock)) impl_->report_stall();
  impl_->begin(std::move(contents));
  if (!impl_->wait_until_idle(lock)) impl_->report_stall();
  Outcome outcome = std::move(impl_->outcomes.back());
  impl_->outcomes.pop_back();
  return impl_->checked(std::move(outcome));
}

std::int64_t Writer::skipped() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->skipped;
}

}  // namespace coxswain::checkpoint
