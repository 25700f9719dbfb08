#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>
#include <utility>

#include "operator/controller/interruptible_sleep.h"
#include "operator/kube/client.h"

namespace coxswain::controller {

// Where an informer puts what it sees. Called on the informer's thread alone; must not throw.
class ObjectSink {
 public:
  virtual ~ObjectSink() = default;
  virtual void begin_list() = 0;  // forget what was listed since the last one
  virtual void listed(const kube::Json& object) = 0;
  virtual void end_list(std::uint64_t version) = 0;  // the list is whole
  virtual void changed(const kube::Json& object) = 0;
  virtual void deleted(const kube::Json& object) = 0;
  virtual void progress(std::uint64_t version) = 0;  // a bookmark
};

struct InformerOptions {
  kube::ListQuery query;
  // Waiting between two failed tries: 0.8 s, doubled up to 30 s, and up to a tenth more at random.
  std::function<void(std::chrono::milliseconds, std::stop_token)> sleep = interruptible_sleep;
  kube::Clock clock = {};
  // What to tell of an error: once for each kind of error until something succeeds.
  std::function<void(const kube::ApiError&)> on_error = [](const kube::ApiError&) {};
  std::function<void()> on_synced = [] {};  // the first list is whole
  std::function<void()> on_turn = [] {};    // it goes on: another state, or another object
};

// Resource. List, then watch; list again after 410, after what can't be trusted, and every ten
// minutes, which heals what a lost event broke; watch on from the last version after everything
// else.
//
// A machine of three states. A thread carries out what they ask for: run(). A simulation does so in
// its own time, by the calls below it.
class Informer {
 public:
  enum class State { kListing, kWatching, kResting };

  // Both must outlive this.
  Informer(kube::Client& client, kube::Resource resource, InformerOptions options,
           ObjectSink& sink);

  void run(std::stop_token stop);  // until asked to stop; once
  bool synced() const;             // the first list is whole. Thread-safe.
  // Each blocks; false: stopped before. Thread-safe.
  bool wait_synced(std::stop_token stop) const;
  bool wait_tried(std::stop_token stop) const;  // synced, or the API server refused the first list

  State state() const { return state_; }
  void list();                               // kListing
  bool begin_watch();                        // kWatching, from version(); false: list first
  bool hear(const kube::WatchEvent& event);  // false: it can't be trusted, end the watch
  void end_watch(const kube::WatchEnd& end);
  std::chrono::milliseconds rest() const { return rest_; }  // kResting: for so long
  void end_rest() { state_ = after_rest_; }

  std::uint64_t version() const { return version_; }  // everything up to here was seen

 private:
  void watch(std::stop_token stop);
  void rest_before(State state);
  void take(const kube::WatchEvent& event);
  void tell(const kube::ApiError& error);
  void set_tried(bool synced);

  kube::Client& client_;
  const kube::Resource resource_;
  const InformerOptions options_;
  ObjectSink& sink_;

  // Of the one thread that carries this.
  State state_ = State::kListing;
  std::uint64_t version_ = 0;
  std::chrono::steady_clock::time_point listed_, watched_;  // when the last of each began to hold
  bool saw_any_ = false;                                    // in this watch
  bool is_broken_ = false;                                  // it told what can't be trusted
  int failures_ = 0;                                        // in a row
  std::chrono::milliseconds rest_{0};
  State after_rest_ = State::kListing;
  std::set<std::pair<int, std::string>> told_;  // kinds of errors: code, reason

  mutable std::mutex mutex_;
  mutable std::condition_variable_any is_tried_;
  // Guarded by mutex_:
  bool tried_ = false;
  bool synced_ = false;
};

}  // namespace coxswain::controller
