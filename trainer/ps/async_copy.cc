#include "trainer/ps/async_copy.h"

#include <fmt/format.h>

#include "trainer/contract/error.h"

namespace coxswain::ps {

Bytes AsyncCopy::also() const {
  Bytes bytes = encode(done_);
  bytes.insert(bytes.end(), minutes_.begin(), minutes_.end());
  return bytes;
}

void AsyncCopy::set_also(std::span<const std::byte> bytes) {
  done_ = decode_steps(bytes);
  set_minutes(bytes);
}

void AsyncCopy::commit(const Message& message, const optim::UpdateStep& terms) {
  if (done_.contains(message.offset))
    throw Error(ExitCode::kPeerLost,
                fmt::format("[ps] step {} is to be made twice of a copy", message.offset));
  Copy::commit(message, terms);
  done_.insert(message.offset);
}

void AsyncCopy::set_minutes(std::span<const std::byte> minutes) {
  if (!minutes.empty()) decode_minutes(minutes);  // whoever comes back must be able to read it
  minutes_.assign(minutes.begin(), minutes.end());
}

}  // namespace coxswain::ps
