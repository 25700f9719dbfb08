#include "trainer/ps/sync_server.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/backend/host_update.h"
#include "trainer/comm/sum_parts.h"
#include "trainer/contract/error.h"

namespace coxswain::ps {

namespace {

[[noreturn]] void refuse(const Push& push, const char* why) {
  throw Error(ExitCode::kPeerLost,
              fmt::format("[ps] worker {} pushed part {} of step {} at {} ({} floats): {}",
                          push.worker, push.part, push.step, push.offset, push.length, why));
}

}  // namespace

SyncServer::SyncServer(const Plan& plan, int server, comm::ReductionPlan reduction,
                       optim::UpdateRule rule, std::int64_t window, SyncOutbox& outbox)
    : plan_(plan),
      server_(server),
      reduction_(std::move(reduction)),
      rule_(rule),
      outbox_(outbox),
      shard_(plan, server),
      is_copied_(plan.map.servers() > 1),
      finite_(static_cast<std::size_t>(plan.map.servers())) {
  for (const Piece& piece : shard_.pieces()) blocks_.emplace_back().piece = piece;
  const std::int64_t bytes = plan.map.block() * reduction_.total_parts() * 4;
  window_ = static_cast<std::size_t>(std::max<std::int64_t>(1, window / bytes));
  begin_step();
}

void SyncServer::start(std::int64_t step, std::int64_t update_count,
                       const std::optional<backend::ControlFloats>& last) {
  step_ = step;
  update_count_ = update_count;
  outcome_ = last;
  if (last) last_decision_ = (*last)[backend::kUpdated] > 0;
}

void SyncServer::begin_step() {
  for (Block& block : blocks_) {
    block.parts.assign(static_cast<std::size_t>(reduction_.total_parts()), PartState::kMissing);
    block.missing = reduction_.total_parts();
    block.is_summed = false;
  }
  first_unsummed_ = 0;
  sums_are_finite_ = true;
  terms_.reset();
  decision_.reset();
  std::ranges::fill(finite_, std::nullopt);
}

std::size_t SyncServer::find(const Push& push) const {
  const Piece* piece = shard_.find(push.offset, push.length);
  if (piece == nullptr) refuse(push, "that is no block of this server");
  return static_cast<std::size_t>(piece - shard_.pieces().data());
}

bool SyncServer::brings(int worker, int part) const {
  if (worker < 0 || worker >= std::ssize(reduction_.parts_of_rank)) return false;
  const int first = reduction_.first_part(worker);
  return part >= first && part < first + reduction_.parts_of_rank[static_cast<std::size_t>(worker)];
}

std::span<float> SyncServer::place_of(Block& block, int part) {
  if (reduction_.total_parts() == 1) return Shard::of(shard_.gradients(), block.piece);
  if (block.staging.size() == 0) {
    if (spare_staging_.empty())
      spare_staging_.emplace_back(plan_.map.block() * reduction_.total_parts());
    block.staging = std::move(spare_staging_.back());
    spare_staging_.pop_back();
  }
  const auto length = static_cast<std::size_t>(block.piece.length);
  return block.staging.span().subspan(static_cast<std::size_t>(part) * length, length);
}

SyncServer::Answer SyncServer::offer(const Push& push) {
  const std::size_t index = find(push);
  if (!brings(push.worker, push.part)) refuse(push, "the part is another's");
  if (push.step > step_) refuse(push, "the step before it is not done");
  Block& block = blocks_[index];
  PartState& state = block.parts[static_cast<std::size_t>(push.part)];
  if (push.step < step_ || state == PartState::kHere) return {Verdict::kIgnore};
  // The workers push in one order: who owes the first block is never told to wait for another.
  if (index >= first_unsummed_ + window_) return {Verdict::kWait};
  state = PartState::kArriving;
  return {Verdict::kTake, place_of(block, push.part)};
}

void SyncServer::received(const Push& push) {
  if (push.step != step_) return;
  Block& block = blocks_[find(push)];
  PartState& state = block.parts[static_cast<std::size_t>(push.part)];
  if (state != PartState::kArriving) return;
  state = PartState::kHere;
  if (--block.missing > 0) return;
  sum(block);
  bool has_room = false;
  while (first_unsummed_ < blocks_.size() && blocks_[first_unsummed_].is_summed) {
    ++first_unsummed_;
    has_room = true;
  }
  if (has_room) outbox_.has_room();
  if (!has_all_sums()) return;
  say_ready();
  finish_step_if_known();
}

void SyncServer::sum(Block& block) {
  const std::span<float> sums = Shard::of(shard_.gradients(), block.piece);
  if (block.staging.size() > 0) {
    std::vector<float*> parts;
    for (int part = 0; part < reduction_.total_parts(); ++part)
      parts.push_back(place_of(block, part).data());
    comm::sum_parts(reduction_.adds, parts, block.piece.length, sums.data());
    spare_staging_.push_back(std::move(block.staging));
    block.staging = {};
  }
  sums_are_finite_ = sums_are_finite_ && backend::all_finite(sums);
  block.is_summed = true;
  if (is_copied_ && copied_ == step_) copy_sums(block);
}

void SyncServer::copy_sums(const Block& block) {
  outbox_.copy_sums(step_, block.piece, Shard::of(shard_.gradients(), block.piece));
}

void SyncServer::copy_holds(std::optional<std::int64_t> steps) {
  copied_ = steps;
  if (copied_ != step_) return;
  send_weights_if_copied();
  for (const Block& block : blocks_)
    if (block.is_summed) copy_sums(block);
  finish_step_if_known();
}

void SyncServer::say_ready() {
  if (holds_control()) return server_ready(server_, step_, sums_are_finite_);
  outbox_.ready(step_, sums_are_finite_);
}

void SyncServer::tell_servers_again() {
  if (last_decision_) outbox_.decided(step_ - 1, *last_decision_);
  if (decision_) return outbox_.decided(step_, *decision_);
  if (has_all_sums()) say_ready();
}

void SyncServer::lost_worker(int worker) {
  for (Block& block : blocks_)
    for (std::size_t part = 0; part < block.parts.size(); ++part)
      if (block.parts[part] == PartState::kArriving && brings(worker, static_cast<int>(part)))
        block.parts[part] = PartState::kMissing;
}

std::span<float> SyncServer::control_of(std::span<float> buffer) const {
  return buffer.last(tensor::kControlFloats);
}

void SyncServer::terms(std::int64_t step, const optim::UpdateStep& terms) {
  if (step != step_) return;
  terms_ = terms;
  finish_step_if_known();
}

void SyncServer::server_ready(int server, std::int64_t step, bool finite) {
  if (!holds_control()) return;
  if (step + 1 == step_ && last_decision_) return outbox_.decided(step, *last_decision_);
  if (step != step_) return;
  finite_[static_cast<std::size_t>(server)] = finite;
  if (!std::ranges::all_of(finite_, [](const auto& said) { return said.has_value(); })) return;
  const auto sums = control_of(shard_.gradients());
  const bool updated = sums[backend::kNotFinite] == 0 &&
                       std::ranges::all_of(finite_, [](const auto& said) { return *said; });
  outbox_.decided(step_, updated);
  decision(step_, updated);
}

void SyncServer::decision(std::int64_t step, bool updated) {
  if (step != step_) return;
  decision_ = updated;
  finish_step_if_known();
}

void SyncServer::finish_step_if_known() {
  if (!has_all_sums() || !decision_ || !terms_ || !has_copy_of(step_)) return;
  if (is_copied_) outbox_.copy_commit(step_, *decision_, *terms_);
  if (*decision_) {
    optim::UpdateStep update = *terms_;
    update.update_count = ++update_count_;
    shard_.update(rule_, update);
    if (holds_control())
      std::ranges::copy(backend::to_floats(update_count_), control_of(shard_.weights()).begin());
  }
  outcome_.emplace();
  if (holds_control()) std::ranges::copy(control_of(shard_.gradients()), outcome_->begin());
  (*outcome_)[backend::kUpdated] = *decision_ ? 1.0F : 0.0F;
  ++step_;
  last_decision_ = decision_;
  begin_step();
  owes_weights_ = true;
  send_weights_if_copied();
}

void SyncServer::send_weights_if_copied() {
  if (!owes_weights_ || !has_copy_of(step_)) return;
  owes_weights_ = false;
  send_weights(std::nullopt, step_ - 1);
}

void SyncServer::asks_again(int worker, std::int64_t step) {
  lost_worker(worker);
  if (step + 1 == step_ && !owes_weights_) send_weights(worker, step);
}

void SyncServer::send_weights(std::optional<int> worker, std::int64_t step) {
  if (outcome_ && holds_control()) outbox_.outcome(worker, step, *outcome_);
  for (const Piece& piece : shard_.pieces())
    outbox_.weights(worker, step, piece, Shard::of(shard_.weights(), piece));
}

}  // namespace coxswain::ps
