#include <algorithm>
#include <map>

#include "trainer/comm/sum_messages.h"
#include "trainer/comm/sum_parts.h"

namespace coxswain::comm {

namespace {

// On each machine one rank carries the blocks of an owner: of the owner's machine itself the owner.
//
// 1. A rank sends its parts of each block to the rank of its machine that carries it.
// 2. This adds them, and sends what is left to the block's owner.
// 3. The owner adds that, and sends the sum to those that carry the block on other machines.
// 4. All that a rank carries goes to the others of its machine.
class MachineSumExchange final : public Exchange {
 public:
  MachineSumExchange(std::int64_t number, std::shared_ptr<const ReductionPlan> plan,
                     std::vector<int> machines, HostReduction segment, Staging& staging)
      : Exchange(number),
        plan_(std::move(plan)),
        machines_(std::move(machines)),
        by_machine_(by_machine(*plan_, machines_)),
        segment_(std::move(segment)),
        pool_(staging) {}

  ~MachineSumExchange() override {
    for (auto* staged : {&mates_staged_, &others_staged_})
      if (staged->size() > 0) pool_.give_back(std::move(*staged));
  }

  void start(Wire& wire) override {
    rank_ = wire.rank();
    size_ = wire.size();
    for (auto* of : {&parts_missing_, &left_missing_, &sums_missing_, &mates_owe_, &untaken_})
      of->assign(static_cast<std::size_t>(size_), false);
    ranks_of_.resize(by_machine_.machines.size());
    for (int rank = 0; rank < size_; ++rank) ranks_of_[machine_of(rank)].push_back(rank);
    carried_ = carried_by(rank_);
    for (const int owner : carried_) carried_length_ += length_of(owner);
    receive_parts(wire);
    receive_left(wire);
    for (const int mate : mates()) send_parts(wire, mate);
    if (!first_with(parts_missing_, true)) add_own_machine(wire);
  }

  void finished(Wire& wire, MessageId id) override {
    --open_;
    const int peer = static_cast<int>(index_of(id) % size_);
    const auto at = static_cast<std::size_t>(peer);
    switch (index_of(id) / size_) {
      case kPartsReceived:
        parts_missing_[at] = false;
        if (!first_with(parts_missing_, true)) add_own_machine(wire);
        break;
      case kPartsSent:
        receive(wire, peer, kMateSumsReceived, kToMates, sums_of(carried_by(peer)));
        break;
      case kLeftReceived:
        left_missing_[at] = false;
        add_all(wire);
        break;
      case kLeftSent:
        receive(wire, peer, kSumReceived, kToCarriers, sums_of({peer}));
        break;
      case kSumReceived:
        sums_missing_[at] = false;
        tell_mates(wire);
        break;
      case kMateSumsReceived:
        mates_owe_[at] = false;
        break;
      default:
        untaken_[at] = false;
        break;
    }
  }

  bool done() const override { return open_ == 0; }

  std::optional<Late> waits_for() const override {
    if (const auto mate = first_with(parts_missing_, true)) return Late{*mate, 0};
    if (const auto carrier = first_with(left_missing_, true)) return Late{*carrier, 1};
    if (const auto owner = first_with(sums_missing_, true)) return Late{*owner, 2};
    if (const auto mate = first_with(mates_owe_, true)) return Late{*mate, 3};
    if (const auto peer = first_with(untaken_, true)) return Late{*peer, 0};
    return std::nullopt;
  }

 private:
  enum Kind {
    kPartsReceived,
    kPartsSent,
    kLeftReceived,
    kLeftSent,
    kSumReceived,
    kMateSumsReceived,
    kSumsSent
  };
  enum Phase { kToCarrier, kToOwner, kToCarriers, kToMates };

  std::size_t machine_of(int rank) const {
    return static_cast<std::size_t>(machines_[static_cast<std::size_t>(rank)]);
  }
  const MachinePlan::Machine& plan_of(std::size_t machine) const {
    return by_machine_.machines[machine];
  }
  std::int64_t length_of(int owner) const { return total(runs_of(segment_, owner, size_)); }

  int carrier_of(int owner, std::size_t machine) const {
    if (machine_of(owner) == machine) return owner;
    const std::vector<int>& ranks = ranks_of_[machine];
    return ranks[static_cast<std::size_t>(owner) % ranks.size()];
  }

  // The owners whose blocks this rank carries, but those that have none.
  std::vector<int> carried_by(int carrier) const {
    std::vector<int> owners;
    for (int owner = 0; owner < size_; ++owner)
      if (carrier_of(owner, machine_of(carrier)) == carrier && length_of(owner) > 0)
        owners.push_back(owner);
    return owners;
  }

  std::vector<int> mates() const {
    std::vector<int> result = ranks_of_[machine_of(rank_)];
    std::erase(result, rank_);
    return result;
  }

  void send(Wire& wire, int peer, Kind kind, Phase phase, const Pieces& pieces) {
    wire.send(peer, tag(phase), pieces, id_of(kind, peer));
    ++open_;
  }
  void receive(Wire& wire, int peer, Kind kind, Phase phase, const Pieces& pieces) {
    wire.receive(peer, tag(phase), pieces, id_of(kind, peer));
    ++open_;
  }
  MessageId id_of(Kind kind, int peer) const {
    return message_id(static_cast<std::int64_t>(kind) * size_ + peer);
  }

  // They lie in the staging buffer part after part, as those of each mate come.
  void receive_parts(Wire& wire) {
    if (carried_length_ == 0) return;
    const auto num_parts = [&](int rank) {
      return std::int64_t{plan_->parts_of_rank[static_cast<std::size_t>(rank)]};
    };
    std::int64_t staged = 0;
    for (const int mate : mates()) staged += num_parts(mate) * carried_length_;
    if (staged > 0) mates_staged_ = pool_.take(staged);
    float* at = mates_staged_.data();
    for (const int mate : mates()) {
      const std::int64_t length = num_parts(mate) * carried_length_;
      for (int part = 0; part < num_parts(mate); ++part)
        staged_parts_[plan_->first_part(mate) + part] = at + part * carried_length_;
      receive(wire, mate, kPartsReceived, kToCarrier, {bytes_of(at, length)});
      parts_missing_[static_cast<std::size_t>(mate)] = true;
      at += length;
    }
  }

  // What is left of each other machine's parts of this rank's own blocks.
  void receive_left(Wire& wire) {
    const std::int64_t own = length_of(rank_);
    if (own == 0) return;
    std::int64_t staged = 0;
    for (std::size_t m = 0; m < ranks_of_.size(); ++m)
      if (m != machine_of(rank_)) staged += std::ssize(plan_of(m).left) * own;
    others_staged_ = pool_.take(staged);
    float* at = others_staged_.data();
    for (std::size_t m = 0; m < ranks_of_.size(); ++m) {
      if (m == machine_of(rank_)) continue;
      const std::int64_t length = std::ssize(plan_of(m).left) * own;
      for (const int part : plan_of(m).left) {
        left_parts_[part] = at;
        at += own;
      }
      const int carrier = carrier_of(rank_, m);
      receive(wire, carrier, kLeftReceived, kToOwner, {bytes_of(at - length, length)});
      left_missing_[static_cast<std::size_t>(carrier)] = true;
    }
  }

  void send_parts(Wire& wire, int mate) {
    const std::vector<int> owners = carried_by(mate);
    if (owners.empty()) return;
    Pieces pieces;
    for (const auto& part : segment_.parts) append(pieces, part, owners);
    send(wire, mate, kPartsSent, kToCarrier, pieces);
    mates_owe_[static_cast<std::size_t>(mate)] = true;
  }

  void add_own_machine(Wire& wire) {
    const MachinePlan::Machine& plan = plan_of(machine_of(rank_));
    std::int64_t before = 0;
    for (const int owner : carried_) {
      const std::vector<Run> runs = runs_of(segment_, owner, size_);
      std::vector<float*>& ours = own_left_[owner];
      for (const Run& run : runs) {
        const std::vector<float*> parts = machine_parts(run, before);
        add_parts(plan.adds, parts, run.length);
        for (const int part : plan.left) ours.push_back(parts[static_cast<std::size_t>(part)]);
        before += run.length;
      }
      if (owner == rank_) continue;
      // Part after part, as the owner's staging buffer has them.
      Pieces left;
      for (std::size_t p = 0; p < plan.left.size(); ++p)
        for (std::size_t r = 0; r < runs.size(); ++r)
          left.push_back(bytes_of(ours[r * plan.left.size() + p], runs[r].length));
      send(wire, owner, kLeftSent, kToOwner, left);
      sums_missing_[static_cast<std::size_t>(owner)] = true;
    }
    is_own_added_ = true;
    if (length_of(rank_) > 0)
      add_all(wire);
    else
      tell_mates(wire);
  }

  // Where the parts of this machine's ranks lie, of one run; `before`: floats of what this rank
  // carries before it.
  std::vector<float*> machine_parts(const Run& run, std::int64_t before) {
    std::vector<float*> parts(static_cast<std::size_t>(plan_->total_parts()), nullptr);
    const int first = plan_->first_part(rank_);
    for (std::size_t i = 0; i < segment_.parts.size(); ++i)
      parts[static_cast<std::size_t>(first) + i] = segment_.parts[i].data() + run.begin;
    for (const auto& [part, at] : staged_parts_)
      parts[static_cast<std::size_t>(part)] = at + before;
    return parts;
  }

  // The own blocks, once what is left on every machine is there.
  void add_all(Wire& wire) {
    if (!is_own_added_ || first_with(left_missing_, true)) return;
    const std::vector<int>& own = plan_of(machine_of(rank_)).left;
    const std::vector<float*>& ours = own_left_[rank_];
    std::vector<float*> parts(static_cast<std::size_t>(plan_->total_parts()), nullptr);
    std::int64_t before = 0;
    std::size_t next = 0;
    for (const Run& run : runs_of(segment_, rank_, size_)) {
      for (const auto& [part, at] : left_parts_)
        parts[static_cast<std::size_t>(part)] = at + before;
      for (const int part : own) parts[static_cast<std::size_t>(part)] = ours[next++];
      sum_parts(by_machine_.adds, parts, run.length, segment_.parts[0].data() + run.begin);
      before += run.length;
    }
    for (std::size_t m = 0; m < ranks_of_.size(); ++m)
      if (m != machine_of(rank_)) send_sums(wire, carrier_of(rank_, m), kToCarriers, {rank_});
    is_summed_ = true;
    tell_mates(wire);
  }

  // Once all sums that this rank carries are there.
  void tell_mates(Wire& wire) {
    const bool is_summed = is_summed_ || length_of(rank_) == 0;
    if (!is_own_added_ || !is_summed || first_with(sums_missing_, true)) return;
    if (carried_length_ == 0) return;
    for (const int mate : mates()) send_sums(wire, mate, kToMates, carried_);
  }

  void send_sums(Wire& wire, int peer, Phase phase, const std::vector<int>& owners) {
    send(wire, peer, kSumsSent, phase, sums_of(owners));
    untaken_[static_cast<std::size_t>(peer)] = true;
  }

  Pieces sums_of(const std::vector<int>& owners) const {
    Pieces pieces;
    append(pieces, segment_.parts[0], owners);
    return pieces;
  }

  void append(Pieces& pieces, std::span<float> part, const std::vector<int>& owners) const {
    for (const int owner : owners)
      for (const Run& run : runs_of(segment_, owner, size_))
        pieces.push_back(bytes_of(part.data() + run.begin, run.length));
  }

  const std::shared_ptr<const ReductionPlan> plan_;
  const std::vector<int> machines_;  // by rank
  const MachinePlan by_machine_;
  const HostReduction segment_;
  Staging& pool_;
  int rank_ = 0;
  int size_ = 1;
  std::vector<std::vector<int>> ranks_of_;  // by machine
  std::vector<int> carried_;                // the owners whose blocks this rank carries
  std::int64_t carried_length_ = 0;         // floats
  tensor::AlignedBuffer<float> mates_staged_;
  tensor::AlignedBuffer<float> others_staged_;
  std::map<int, float*> staged_parts_;           // of mates, of all that this rank carries
  std::map<int, float*> left_parts_;             // of other machines, of its own blocks
  std::map<int, std::vector<float*>> own_left_;  // by owner: what is left here, run after run
  bool is_own_added_ = false;
  bool is_summed_ = false;
  // By rank: whose parts, remains and sums have not come, and who has not taken a sum.
  std::vector<bool> parts_missing_, left_missing_, sums_missing_, mates_owe_, untaken_;
  int open_ = 0;  // messages in progress
};

}  // namespace

std::unique_ptr<Exchange> make_machine_sum_exchange(std::int64_t number,
                                                    std::shared_ptr<const ReductionPlan> plan,
                                                    std::vector<int> machines,
                                                    HostReduction segment, Staging& staging) {
  return std::make_unique<MachineSumExchange>(number, std::move(plan), std::move(machines),
                                              std::move(segment), staging);
}

}  // namespace coxswain::comm
