#include "trainer/ps/client_thread.h"

#include <algorithm>
#include <chrono>

namespace coxswain::ps {

namespace {

using Clock = std::chrono::steady_clock;

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

void ClientThread::await_servers() {
  runner_.wait_until([this] { return client_.all_are_there(); });
}

void ClientThread::await_all() {
  runner_.wait_until([this] { return client_.has_all(); });
}

void ClientThread::hand_over(std::int64_t step, std::int64_t update_count) {
  runner_.post([this, step, update_count] { client_.hand_over(step, update_count); });
  await_all();
}

void ClientThread::begin(std::int64_t step, const std::optional<optim::UpdateStep>& terms) {
  runner_.post([this, step, terms] { client_.begin(step, terms); });
}

void ClientThread::push(std::int64_t offset, int part, std::span<const float> gradients) {
  runner_.post([this, offset, part, gradients] {
    const auto start = Clock::now();
    const std::span<const std::byte> bytes = encoder_.encode(offset, gradients);
    const auto encoded = Clock::now();
    client_.push({offset, part, bytes});
    if (!is_measured_) return;
    const auto pushed = Clock::now();
    encoder_.decode(offset, std::ssize(gradients));
    measured_.encode_seconds += seconds(encoded - start);
    measured_.decode_seconds += seconds(Clock::now() - pushed);
  });
}

// How fast the weights come, once they do.
void ClientThread::await_weights() {
  if (!is_measured_) return await_all();
  std::int64_t missing = -1;
  runner_.wait_until([this, &missing, all = std::int64_t{0}]() mutable {
    all = std::max(all, client_.missing());
    missing = client_.missing();
    return missing == 0 || missing < all;
  });
  const auto first = Clock::now();
  await_all();
  measured_.steps += 1;
  measured_.network_bytes += missing * static_cast<std::int64_t>(sizeof(float));
  measured_.network_seconds += seconds(Clock::now() - first);
  measured_.bytes_spared += encoder_.plain_bytes() - encoder_.bytes();
}

backend::ControlFloats ClientThread::finish_step() {
  await_weights();  // from here on the thread leaves both alone until the next step
  encoder_.finish_step(client_.outcome()[backend::kUpdated] > 0);
  return client_.outcome();
}

void ClientThread::fetch_slots() {
  runner_.post([this] { client_.ask_slots(); });
  await_all();
}

}  // namespace coxswain::ps
