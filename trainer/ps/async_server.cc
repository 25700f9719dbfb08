#include "trainer/ps/async_server.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/contract/error.h"

namespace coxswain::ps {

AsyncServer::AsyncServer(const Plan& plan, int server, optim::UpdateRule rule, std::int64_t window,
                         AsyncOutbox& outbox)
    : plan_(plan), rule_(rule), outbox_(outbox), shard_(plan, server) {
  const std::int64_t bytes = plan.map.load(server) * static_cast<std::int64_t>(sizeof(float));
  most_stagings_ = static_cast<std::size_t>(std::max<std::int64_t>(1, window / bytes));
}

void AsyncServer::start(std::int64_t step, std::int64_t update_count) {
  done_ = StepSet(step);
  update_count_ = update_count;
}

// In the order in which they came to wait.
bool AsyncServer::has_room_for(int worker) {
  const bool is_next = waiting_.empty() || waiting_.front() == worker;
  const bool has_room = stagings_.size() < most_stagings_;
  if (has_room && is_next) {
    if (!waiting_.empty()) waiting_.pop_front();
    return true;
  }
  if (std::ranges::find(waiting_, worker) == waiting_.end()) waiting_.push_back(worker);
  return false;
}

AsyncServer::Staging& AsyncServer::staging_of(int worker, std::int64_t step) {
  const std::size_t pieces = shard_.pieces().size();
  if (const auto found = stagings_.find(worker);
      found != stagings_.end() && found->second.step == step)
    return found->second;
  drop_staging(worker);
  if (spare_.empty()) spare_.emplace_back(std::ssize(shard_.weights()));
  Staging& staging = stagings_[worker];
  staging = {.step = step,
             .gradients = std::move(spare_.back()),
             .is_here = std::vector<bool>(pieces),
             .missing = pieces,
             .terms = {}};
  spare_.pop_back();
  return staging;
}

void AsyncServer::drop_staging(int worker) {
  const auto found = stagings_.find(worker);
  if (found == stagings_.end()) return;
  spare_.push_back(std::move(found->second.gradients));
  stagings_.erase(found);
}

AsyncServer::Answer AsyncServer::offer(const Push& push) {
  const Piece* piece = shard_.find(push.offset, push.length);
  if (piece == nullptr)
    throw Error(ExitCode::kPeerLost,
                fmt::format("[ps] worker {} pushed {} floats of step {} at {}: that is no block of "
                            "this server",
                            push.worker, push.length, push.step, push.offset));
  if (done_.contains(push.step)) {
    if (std::erase(waiting_, push.worker) > 0) outbox_.has_room();
    return {Verdict::kIgnore};
  }
  if (!stagings_.contains(push.worker) && !has_room_for(push.worker))
    return {Verdict::kWait};
  Staging& staging = staging_of(push.worker, push.step);
  return {Verdict::kTake,
          Shard::of({staging.gradients.data(), staging.gradients.size()}, *piece)};
}

void AsyncServer::received(const Push& push) {
  const auto found = stagings_.find(push.worker);
  if (found == stagings_.end() || found->second.step != push.step) return;
  Staging& staging = found->second;
  const auto index =
      static_cast<std::size_t>(shard_.find(push.offset, push.length) - shard_.pieces().data());
  if (staging.is_here[index]) return;
  staging.is_here[index] = true;
  --staging.missing;
  finish_if_whole(push.worker);
}

void AsyncServer::pushed(int worker, std::int64_t step,
                         const std::optional<optim::UpdateStep>& terms) {
  const auto found = stagings_.find(worker);
  if (done_.contains(step) || found == stagings_.end() || found->second.step != step)
    return answer(worker, step);
  found->second.is_complete = true;
  found->second.terms = terms;
  finish_if_whole(worker);
}

void AsyncServer::finish_if_whole(int worker) {
  const Staging& staging = stagings_.at(worker);
  if (!staging.is_complete || staging.missing > 0) return;
  const std::int64_t step = staging.step;
  if (done_.insert(step) && staging.terms) apply(worker, staging);
  answer(worker, step);
}

void AsyncServer::apply(int worker, const Staging& staging) {
  optim::UpdateStep update = *staging.terms;
  const std::int64_t staleness = version_ - version_sent_[worker];
  staleness_[worker] = staleness;
  update.lr /= static_cast<float>(std::max<std::int64_t>(1, staleness));
  update.update_count = ++update_count_;
  const tensor::AlignedBuffer<float>& gradients = staging.gradients;
  shard_.update(rule_, update, {gradients.data(), gradients.size()});
  ++version_;
}

void AsyncServer::answer(int worker, std::int64_t step) {
  drop_staging(worker);
  send_weights(worker, step);
  outbox_.has_room();
}

void AsyncServer::lost_worker(int worker) {
  drop_staging(worker);
  std::erase(waiting_, worker);
  outbox_.has_room();
}

void AsyncServer::send_weights(int worker, std::int64_t step) {
  version_sent_[worker] = version_;
  for (const Piece& piece : shard_.pieces())
    outbox_.weights(worker, step, piece, Shard::of(shard_.weights(), piece));
}

}  // namespace coxswain::ps
