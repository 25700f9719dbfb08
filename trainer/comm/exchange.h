#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "trainer/comm/communicator.h"
#include "trainer/comm/wire.h"
#include "trainer/tensor/aligned_buffer.h"

namespace coxswain::comm {

// Receive buffers, kept for the next exchange: fresh memory costs more than the sum done in it.
class Staging {
 public:
  tensor::AlignedBuffer<float> take(std::int64_t count);
  void give_back(tensor::AlignedBuffer<float> buffer);

 private:
  std::vector<tensor::AlignedBuffer<float>> free_;
};

// Value. A peer that keeps an exchange from its end. `distance` 0: it owes this rank something
// itself; above, so many ranks may stand between, each of which keeps the next one waiting.
struct Late {
  int rank = 0;
  int distance = 0;
  bool operator==(const Late&) const = default;
};

// One rank's side of one collective step, as a state machine over a wire: no thread, no clock.
//
// Exchanges are numbered alike on all ranks. start() and finished() start messages whose ids carry
// the number, see exchange_of. done() means that all memory is the caller's again.
class Exchange {
 public:
  explicit Exchange(std::int64_t number) : number_(number) {}
  virtual ~Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  std::int64_t number() const { return number_; }
  virtual void start(Wire& wire) = 0;
  virtual void finished(Wire& wire, MessageId id) = 0;
  virtual bool done() const = 0;

  // Who is late, if this takes long. Nobody: it is done.
  virtual std::optional<Late> waits_for() const = 0;

 protected:
  // An id's lower part is free for the exchange; tags differ among exchanges in progress.
  MessageId message_id(std::int64_t index) const;
  static std::int64_t index_of(MessageId id);
  int tag(int phase) const;

 private:
  std::int64_t number_;
};

std::int64_t exchange_of(MessageId id);

// The first peer of which this is said.
std::optional<int> first_with(const std::vector<bool>& of_peers, bool value);

// View. A reduction whose parts the host reaches.
struct HostReduction {
  std::vector<std::span<float>> parts;
  std::int64_t offset = 0;
  BlockCodec* codec = nullptr;
};
HostReduction on_host(const Reduction& reduction);

// Sums one segment of a reduction: every rank sends its parts of each block to the block's owner,
// the owner adds them in the plan's order and sends the sum to all.
std::unique_ptr<Exchange> make_sum_exchange(std::int64_t number,
                                            std::shared_ptr<const ReductionPlan> plan,
                                            HostReduction segment, Staging& staging);

// The same sum, of ranks on several machines: each machine's parts are added there first, by the
// rank that carries the block, and its sum alone goes to the block's owner, and back. A machine
// with m ranks sends m times less than above. For segments without a codec.
std::unique_ptr<Exchange> make_machine_sum_exchange(std::int64_t number,
                                                    std::shared_ptr<const ReductionPlan> plan,
                                                    std::vector<int> machines,
                                                    HostReduction segment, Staging& staging);

// Cuts a reduction into segments that are fit for one exchange each. Every rank cuts alike.
std::vector<HostReduction> segments_of(const ReductionPlan& plan, const HostReduction& reduction);

// Passes one chunk of bytes from root down a binomial tree.
std::unique_ptr<Exchange> make_broadcast_exchange(std::int64_t number, std::span<std::byte> bytes,
                                                  int root);

// Done when every rank has started it.
std::unique_ptr<Exchange> make_barrier_exchange(std::int64_t number);

}  // namespace coxswain::comm
