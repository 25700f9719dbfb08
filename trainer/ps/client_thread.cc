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

void ClientThread::push(const BlockPart& part) {
  runner_.post([this, part] { client_.push(part); });
}

backend::ControlFloats ClientThread::finish_step() {
  await_all();
  return client_.outcome();  // the thread leaves it alone until the next step
}

void ClientThread::fetch_slots() {
  runner_.post([this] { client_.ask_slots(); });
  await_all();
}

}  // namespace coxswain::ps
