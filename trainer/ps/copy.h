#pragma once

#include <span>

#include "trainer/ps/message.h"
#include "trainer/ps/minutes.h"
#include "trainer/ps/shard.h"

namespace coxswain::ps {

// What one server keeps of what another holds, for the case that it dies: the same weights and
// slots, from the same sums and terms (state-machine replication: Schneider 1990, "Implementing
// fault-tolerant services using the state machine approach"). All of it comes over one connection,
// in order.
class Copy {
 public:
  // Of what `server` holds, as told by `beginning`; its state follows.
  Copy(const Plan& plan, int server, const optim::UpdateRule& rule, const Beginning& beginning);
  virtual ~Copy() = default;

  bool is_whole() const { return floats_missing_ == 0; }
  const Beginning& position() const { return position_; }  // how far it is
  Shard& shard() { return shard_; }
  // What its holder must know besides; a subclass says what it is. Throws Error(71) for what it is
  // not.
  virtual Bytes also() const = 0;
  virtual void set_also(std::span<const std::byte> bytes) = 0;

  // Where they belong. Throws Error(71) for what no server sends.
  std::span<float> place_of_state(const Message& message);
  std::span<float> place_of_sums(const Message& message);
  void take_state(const Message& message);
  void take_sums(const Message& message);
  // The next step, as a kCommit says. Throws Error(71) when sums of it are missing.
  virtual void commit(const Message& message, const optim::UpdateStep& terms);

 private:
  const optim::UpdateRule rule_;
  Shard shard_;
  Beginning position_;
  std::int64_t floats_missing_;  // of its state
  std::int64_t sums_missing_;    // of the running step
};

// Where a kState message's floats belong in a shard: weights (part 0) or a slot. Throws Error(71)
// when there is no such place.
std::span<float> place_in(Shard& shard, const Message& message);

}  // namespace coxswain::ps
