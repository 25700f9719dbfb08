#include "trainer/ps/sync_copy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "trainer/contract/error.h"

namespace coxswain::ps {

void SyncCopy::commit(const Message& message, const optim::UpdateStep& terms) {
  Copy::commit(message, terms);
  outcome_.emplace();
  if (holds_control_) {
    std::ranges::copy(shard().gradients().last(tensor::kControlFloats), outcome_->begin());
    if (message.part == 1)
      std::ranges::copy(backend::to_floats(position().update_count),
                        shard().weights().last(tensor::kControlFloats).begin());
  }
  (*outcome_)[backend::kUpdated] = message.part == 1 ? 1.0F : 0.0F;
}

Bytes SyncCopy::encode(const Outcome& outcome) {
  if (!outcome) return {};
  const auto bytes = std::as_bytes(std::span(*outcome));
  return {bytes.begin(), bytes.end()};
}

SyncCopy::Outcome SyncCopy::decode(std::span<const std::byte> bytes) {
  if (bytes.empty()) return std::nullopt;
  backend::ControlFloats outcome{};
  if (bytes.size() != sizeof outcome)
    throw Error(
        ExitCode::kPeerLost,
        fmt::format("[ps] an outcome of {} bytes: no server of this job says that", bytes.size()));
  std::memcpy(outcome.data(), bytes.data(), sizeof outcome);
  return outcome;
}

}  // namespace coxswain::ps
