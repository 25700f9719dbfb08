#include "trainer/ps/async_client_thread.h"

#include <utility>

namespace coxswain::ps {

std::optional<Standing> AsyncClientThread::await_standing(std::chrono::seconds limit) {
  std::optional<Standing> standing;
  runner_.wait_for(
      [this, &standing] {
        standing = client_.standing();
        return standing.has_value();
      },
      limit);
  return standing;
}

void AsyncClientThread::attach(const Plan& plan, const WorkerArrays& arrays,
                               const compress::Codec& codec) {
  encoder_.emplace(plan.layout, plan.map.block(), codec);  // the thread has nothing to encode yet
  runner_.post([this, plan, arrays] { client_.attach(plan, arrays); });
}

void AsyncClientThread::await_all() {
  runner_.wait_until([this] { return client_.has_all(); });
}

void AsyncClientThread::hand_over(std::int64_t step, std::int64_t update_count) {
  runner_.post([this, step, update_count] { client_.hand_over(step, update_count); });
  await_all();
}

void AsyncClientThread::pull(std::int64_t step) {
  runner_.post([this, step] { client_.pull(step); });
  await_all();
}

void AsyncClientThread::fetch_slots() {
  runner_.post([this] { client_.ask_slots(); });
  await_all();
}

void AsyncClientThread::finish_push(const std::optional<optim::UpdateStep>& terms) {
  runner_.post([this, terms] { client_.finish_push(terms); });
  await_all();
  encoder_->finish_step(terms.has_value());
}

void AsyncClientThread::begin(std::int64_t step) {
  runner_.post([this, step] { client_.begin(step); });
}

void AsyncClientThread::push(std::int64_t offset, std::span<const float> gradients) {
  runner_.post([this, offset, gradients] {
    client_.push(offset, encoder_->encode(offset, gradients));
  });
}

void AsyncClientThread::ask_lease() {
  runner_.post([this] { client_.ask_lease(); });
}

void AsyncClientThread::done(std::int64_t step, const StepSums& sums) {
  runner_.post([this, step, sums] { client_.done(step, sums); });
}

void AsyncClientThread::cut_now(bool stop) {
  runner_.post([this, stop] { client_.cut_now(stop); });
}

void AsyncClientThread::set_fence(int fence, std::int64_t step, std::string note) {
  runner_.post(
      [this, fence, step, note = std::move(note)] { client_.set_fence(fence, step, note); });
}

void AsyncClientThread::end(bool saved) {
  runner_.post([this, saved] { client_.end(saved); });
}

std::optional<Event> AsyncClientThread::next_event(std::chrono::nanoseconds limit,
                                                   std::optional<int>& held_by) {
  std::optional<Event> event;
  runner_.wait_for(
      [this, &event, &held_by] {
        event = client_.take_event();
        held_by = client_.held_by();
        return event.has_value();
      },
      limit);
  return event;
}

}  // namespace coxswain::ps
