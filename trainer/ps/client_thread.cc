#include "trainer/ps/client_thread.h"

namespace coxswain::ps {

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
    client_.push({offset, part, encoder_.encode(offset, gradients)});
  });
}

backend::ControlFloats ClientThread::finish_step() {
  await_all();  // from here on the thread leaves both alone until the next step
  encoder_.finish_step(client_.outcome()[backend::kUpdated] > 0);
  return client_.outcome();
}

void ClientThread::fetch_slots() {
  runner_.post([this] { client_.ask_slots(); });
  await_all();
}

}  // namespace coxswain::ps
