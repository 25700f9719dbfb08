#pragma once

#include <functional>
#include <memory>
#include <vector>

namespace coxswain::cluster {

// Resource. A few threads that help whoever has several calls to wait for. Thread-safe.
class Parallel {
 public:
  explicit Parallel(int helpers);
  ~Parallel();
  Parallel(const Parallel&) = delete;
  Parallel& operator=(const Parallel&) = delete;

  // Returns when every call has. The caller makes calls too, so it gets on however busy the helpers
  // are. What a call throws is thrown here, the first of them, after all have ended.
  void run(const std::vector<std::function<void()>>& calls);

 private:
  struct Batch;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace coxswain::cluster
