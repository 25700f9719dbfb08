#include "trainer/ps/async_server.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/contract/error.h"

namespace coxswain::ps {

AsyncServer::AsyncServer(const Plan& plan, int server, optim::UpdateRule rule, std::int64_t window,
                         AsyncOutbox& outbox)
    : plan_(plan),
      rule_(rule),
      outbox_(outbox),
      shard_(plan, server),
      is_copied_(plan.map.servers() > 1) {
  const std::int64_t bytes = plan.map.load(server) * static_cast<std::int64_t>(sizeof(float));
  most_stagings_ = static_cast<std::size_t>(std::max<std::int64_t>(1, window / bytes));
}

void AsyncServer::start(const StepSet& done, std::int64_t update_count) {
  done_ = done;
  update_count_ = update_count;
}

// In the order in which they came to wait.
bool AsyncServer::has_room_for(int worker) {
  const bool is_next = waiting_.empty() || waiting_.front() == worker;
  const bool has_room = stagings_.size() + forwarded_.size() < most_stagings_;
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
  if (!stagings_.contains(push.worker) && !has_room_for(push.worker)) return {Verdict::kWait};
  Staging& staging = staging_of(push.worker, push.step);
  return {Verdict::kTake, Shard::of({staging.gradients.data(), staging.gradients.size()}, *piece)};
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

void AsyncServer::pushed(int worker, std::int64_t step, int version,
                         const std::optional<optim::UpdateStep>& terms) {
  const auto found = stagings_.find(worker);
  if (done_.contains(step) || found == stagings_.end() || found->second.step != step) {
    drop_staging(worker);
    owe(worker, step);
    return outbox_.has_room();
  }
  found->second.is_complete = true;
  found->second.version = version;
  found->second.terms = terms;
  finish_if_whole(worker);
}

void AsyncServer::finish_if_whole(int worker) {
  const auto found = stagings_.find(worker);
  if (found == stagings_.end() || !found->second.is_complete || found->second.missing > 0) return;
  if (is_copied_ && !copied_) return;  // the shard is on its way to the copy
  Staging staging = std::move(found->second);
  stagings_.erase(found);
  if (done_.insert(staging.step)) {
    const auto update = apply(worker, staging);
    forward(staging.step, std::move(staging.gradients), update);
  } else {
    spare_.push_back(std::move(staging.gradients));
  }
  owe(worker, staging.step);
  outbox_.has_room();
}

std::optional<optim::UpdateStep> AsyncServer::apply(int worker, const Staging& staging) {
  if (!staging.terms) return std::nullopt;
  optim::UpdateStep update = *staging.terms;
  const std::int64_t staleness = updates_since(staging.version, update_count_);
  staleness_[worker] = staleness;
  update.lr /= static_cast<float>(std::max<std::int64_t>(1, staleness));
  update.update_count = ++update_count_;
  shard_.update(rule_, update, staging.gradients.span());
  return update;
}

void AsyncServer::forward(std::int64_t step, tensor::AlignedBuffer<float> gradients,
                          const std::optional<optim::UpdateStep>& update) {
  if (!is_copied_) return spare_.push_back(std::move(gradients));
  const std::span<float> floats = gradients.span();
  forwarded_.push_back({done_.size(), std::move(gradients)});
  outbox_.copy(done_.size() - 1, step, floats, update);
}

void AsyncServer::copy_holds(std::optional<std::int64_t> steps) {
  copied_ = steps;
  while (!forwarded_.empty() && (!steps || forwarded_.front().made <= *steps)) {
    spare_.push_back(std::move(forwarded_.front().gradients));
    forwarded_.pop_front();
  }
  if (!steps) return;
  pay();
  std::vector<int> complete;
  for (const auto& [worker, staging] : stagings_)
    if (staging.is_complete) complete.push_back(worker);
  for (const int worker : complete) finish_if_whole(worker);
  outbox_.has_room();
}

void AsyncServer::owe(int worker, std::int64_t step) {
  std::erase_if(owed_, [worker](const Owed& owed) { return owed.worker == worker; });
  owed_.push_back({worker, step, done_.size()});
  pay();
}

void AsyncServer::pay() {
  while (!owed_.empty() && (!is_copied_ || owed_.front().made <= copied_.value_or(-1))) {
    send_weights(owed_.front().worker, owed_.front().step);
    owed_.pop_front();
  }
}

void AsyncServer::lost_worker(int worker) {
  drop_staging(worker);
  std::erase(waiting_, worker);
  std::erase_if(owed_, [worker](const Owed& owed) { return owed.worker == worker; });
  outbox_.has_room();
}

void AsyncServer::send_weights(int worker, std::int64_t step) {
  for (const Piece& piece : shard_.pieces())
    outbox_.weights(worker, step, piece, Shard::of(shard_.weights(), piece));
}

}  // namespace coxswain::ps
