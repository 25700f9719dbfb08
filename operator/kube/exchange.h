#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "operator/kube/transport.h"

namespace coxswain::kube {

// Resource. One request under way: the HTTP library's threads bring the answer, the caller waits
// for it. Shared by both, because the caller may leave first. Thread-safe.
class Exchange {
 public:
  static constexpr std::size_t kMaxBodyBytes = 16 << 20;
  static constexpr std::size_t kMaxWaitingBytes = 1 << 20;  // of a stream, not yet taken

  enum class Wanted { kMore, kLater, kNothing };

  // The library's side.
  void begin(int status, std::optional<std::chrono::seconds> retry_after);
  // kNothing: nobody waits for it any more, or it grew over kMaxBodyBytes. kLater: `resume` is
  // called once the bytes have been taken.
  Wanted add(std::string_view bytes, std::function<void()> resume);
  void end(const std::string& problem);  // empty: the answer is complete

  // The caller's side. The whole answer; none within the time, or before `stop`, is a status of 0.
  Response wait(std::chrono::milliseconds time, std::stop_token stop = {});
  // The answer's pieces, where it is a 2xx, as Transport::stream says.
  Response stream(std::chrono::milliseconds idle_time, std::stop_token stop,
                  const std::function<bool(std::string_view)>& on_data);
  // Nothing is waited for any more; true: nothing is to come either.
  bool leave();

 private:
  Response broken_off(const std::string& problem) const;

  std::mutex mutex_;
  std::condition_variable_any changed_;
  // Guarded by mutex_:
  Response response_;  // the body grows here
  bool has_begun_ = false;
  bool has_ended_ = false;
  bool is_streamed_ = false;  // the caller takes pieces away
  bool has_left_ = false;
  bool is_too_long_ = false;
  std::string problem_;
  std::function<void()> resume_;
};

}  // namespace coxswain::kube
