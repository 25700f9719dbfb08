#pragma once

#include <nccl.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace coxswain::comm {

// Throws Error (71), with NCCL's own words, when a call failed.
void check_nccl(ncclResult_t result, const char* what);

// Resource. NCCL's communicator of this rank. One thread calls it; any may end it meanwhile.
class NcclHandle : public std::enable_shared_from_this<NcclHandle> {
 public:
  // Runs `call`, which may hang: state() says since when. Throws Error (71) after abort().
  void call(const char* what, const std::function<void(ncclComm_t& comm)>& call);

  // The orderly end: what was enqueued is done, and no graph holds any of it.
  void destroy();
  // Ends what runs; who comes second waits for the first. False when that took more than 5 s.
  bool abort();

  bool is_aborted();

  struct State {
    std::string failure;  // "": none
    std::optional<std::chrono::steady_clock::time_point> calling_since;
    std::string doing;
  };
  State state();

 private:
  // Calls that are under way may end by themselves.
  static constexpr std::chrono::seconds kCallDeadline{1};
  static constexpr std::chrono::seconds kAbortDeadline{5};

  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  ncclComm_t comm_ = nullptr;
  std::optional<std::chrono::steady_clock::time_point> calling_since_;
  std::string doing_;
  bool aborts_ = false;
  bool has_aborted_ = false;
};

}  // namespace coxswain::comm
