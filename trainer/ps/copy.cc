#include "trainer/ps/copy.h"

#include <fmt/format.h>

#include "trainer/contract/error.h"

namespace coxswain::ps {

namespace {

[[noreturn]] void refuse(const Message& message) {
  throw Error(ExitCode::kPeerLost,
              fmt::format("[ps] {} floats at {} for array {} of step {}: there is no such place",
                          floats_of(message), message.offset, message.part, message.step));
}

std::span<float> place_in(Shard& shard, std::span<float> all, const Message& message) {
  const Piece* piece = shard.find(message.offset, floats_of(message));
  if (piece == nullptr) refuse(message);
  return Shard::of(all, *piece);
}

}  // namespace

std::span<float> place_in(Shard& shard, const Message& message) {
  if (message.part > shard.num_slots()) refuse(message);
  return place_in(shard, shard.array(message.part), message);
}

Copy::Copy(const Plan& plan, int server, const optim::UpdateRule& rule, const Beginning& beginning)
    : rule_(rule),
      shard_(plan, server),
      position_(beginning),
      floats_missing_(plan.map.load(server) * (1 + plan.num_slots)),
      sums_missing_(plan.map.load(server)) {}

std::span<float> Copy::place_of_state(const Message& message) {
  if (is_whole()) refuse(message);
  return place_in(shard_, message);
}

std::span<float> Copy::place_of_sums(const Message& message) {
  if (!is_whole() || message.step != position_.step) refuse(message);
  return place_in(shard_, shard_.gradients(), message);
}

void Copy::take_state(const Message& message) { floats_missing_ -= floats_of(message); }

void Copy::take_sums(const Message& message) { sums_missing_ -= floats_of(message); }

void Copy::commit(const Message& message, const optim::UpdateStep& terms) {
  if (message.step != position_.step || sums_missing_ != 0)
    throw Error(ExitCode::kPeerLost,
                fmt::format("[ps] step {} is to be made of a copy as of step {} that lacks {} sums",
                            message.step, position_.step, sums_missing_));
  if (message.part == 1) {
    optim::UpdateStep update = terms;
    update.update_count = ++position_.update_count;
    shard_.update(rule_, update);
  }
  ++position_.step;
  sums_missing_ = static_cast<std::int64_t>(shard_.weights().size());
}

}  // namespace coxswain::ps
