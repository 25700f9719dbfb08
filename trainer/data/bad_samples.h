#pragma once

#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace coxswain::data {

// Resource. The bad samples that were passed over, each counted once; for all threads of a loader,
// and for one loader after another.
class BadSampleLog {
 public:
  static constexpr std::size_t kNamed = 5;

  void add(const std::string& name, const std::string& problem) {
    const std::lock_guard lock(mutex_);
    if (!seen_.insert(name).second) return;
    if (first_.size() < kNamed) first_.push_back(name + ": " + problem);
  }

  std::int64_t count() const {
    const std::lock_guard lock(mutex_);
    return static_cast<std::int64_t>(seen_.size());
  }

  // "cat/0001.jpg: is a JPEG that ends too early", of the first few.
  std::vector<std::string> first() const {
    const std::lock_guard lock(mutex_);
    return first_;
  }

 private:
  mutable std::mutex mutex_;
  std::set<std::string> seen_;
  std::vector<std::string> first_;
};

}  // namespace coxswain::data
