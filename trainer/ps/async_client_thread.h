#pragma once

#include "trainer/compress/block_encoder.h"
#include "trainer/ps/async_client.h"
#include "trainer/ps/client_runner.h"

namespace coxswain::ps {

// Resource. An AsyncClient on a thread of its own, which encodes what is pushed, too; see
// ClientRunner. `on_lease` is called there.
class AsyncClientThread {
 public:
  AsyncClientThread(const net::NetworkOptions& network, const ClientOptions& options,
                    std::function<void(std::int64_t step)> on_lease)
      : client_(options, std::move(on_lease)), runner_(network, client_) {}

  // Nullopt: not known, or not begun, in time.
  std::optional<Standing> await_standing(std::chrono::seconds limit);
  void attach(const Plan& plan, const WorkerArrays& arrays, const compress::Codec& codec);

  // These wait for what they ask for.
  void hand_over(std::int64_t step, std::int64_t update_count);
  void pull(std::int64_t step);
  void fetch_slots();
  void finish_push(const std::optional<optim::UpdateStep>& terms);

  void begin(std::int64_t step);
  // They stay as they are until finish_push() has returned.
  void push(std::int64_t offset, std::span<const float> gradients);
  compress::BlockEncoder& encoder() { return *encoder_; }  // between steps

  void ask_lease();
  void done(std::int64_t step, const StepSums& sums);
  void cut_now(bool stop);
  void set_fence(int fence, std::int64_t step, std::string note);
  void end(bool saved);
  // Nullopt: none came in time. `held_by`: the worker that another one's step waits for.
  std::optional<Event> next_event(std::chrono::nanoseconds limit, std::optional<int>& held_by);

 private:
  void await_all();

  std::optional<compress::BlockEncoder> encoder_;
  AsyncClient client_;
  ClientRunner runner_;
};

}  // namespace coxswain::ps
