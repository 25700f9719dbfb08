#include <algorithm>

#include "trainer/comm/sum_messages.h"
#include "trainer/tensor/host_span.h"

namespace coxswain::comm {

namespace {

// Of one message (measured over shared memory and TCP: 1 MiB is as fast as 4, and 256 KiB slower),
// and of all that an owner receives for one segment.
constexpr std::int64_t kBlocksPerMessage = 16;
constexpr std::int64_t kBlocksPerStaging = 64;

class SumExchange final : public Exchange {
 public:
  SumExchange(std::int64_t number, std::shared_ptr<const ReductionPlan> plan, HostReduction segment,
              Staging& staging)
      : Exchange(number), plan_(std::move(plan)), segment_(std::move(segment)), pool_(staging) {}

  void start(Wire& wire) override {
    rank_ = wire.rank();
    size_ = wire.size();
    const SumSide side{*plan_, segment_, rank_, size_, pool_};
    messages_ = segment_.codec == nullptr ? make_plain_messages(side) : make_coded_messages(side);
    for (auto* of : {&missing_, &owed_, &untaken_}) {
      of->assign(static_cast<std::size_t>(size_), false);
    }
    receive_parts(wire);
    for (int i = 1; i < size_; ++i) send_parts(wire, (rank_ + i) % size_);
    if (num_missing_ == 0) add_and_send_sums(wire);
  }

  void finished(Wire& wire, MessageId id) override {
    --open_;
    const int peer = static_cast<int>(index_of(id) % size_);
    switch (index_of(id) / size_) {
      case kPartsReceived:
        missing_[static_cast<std::size_t>(peer)] = false;
        if (--num_missing_ == 0) add_and_send_sums(wire);
        break;
      case kPartsSent:
        receive_sums(wire, peer);
        break;
      case kSumsReceived:
        messages_->take_sums(peer);
        owed_[static_cast<std::size_t>(peer)] = false;
        break;
      default:
        untaken_[static_cast<std::size_t>(peer)] = false;
        break;
    }
  }

  bool done() const override { return open_ == 0; }

  // An owner that owes a sum may itself wait for another's parts.
  std::optional<Late> waits_for() const override {
    if (const auto peer = first_with(missing_, true)) return Late{*peer, 0};
    if (const auto owner = first_with(owed_, true)) return Late{*owner, 1};
    if (const auto peer = first_with(untaken_, true)) return Late{*peer, 0};
    return std::nullopt;
  }

 private:
  enum Kind { kPartsReceived, kPartsSent, kSumsSent, kSumsReceived };

  MessageId id_of(Kind kind, int peer) const {
    return message_id(static_cast<std::int64_t>(kind) * size_ + peer);
  }

  void receive_parts(Wire& wire) {
    for (int peer = 0; peer < size_; ++peer) {
      if (peer == rank_) continue;
      const Pieces room = messages_->room_for_parts(peer);
      if (room.empty()) continue;
      wire.receive(peer, tag(0), room, id_of(kPartsReceived, peer));
      missing_[static_cast<std::size_t>(peer)] = true;
      ++num_missing_;
      ++open_;
    }
  }

  void send_parts(Wire& wire, int owner) {
    const Pieces pieces = messages_->parts_for(owner);
    if (pieces.empty()) return;
    wire.send(owner, tag(0), pieces, id_of(kPartsSent, owner));
    owed_[static_cast<std::size_t>(owner)] = true;
    ++open_;
  }

  void receive_sums(Wire& wire, int owner) {
    wire.receive(owner, tag(1), messages_->room_for_sums(owner), id_of(kSumsReceived, owner));
    ++open_;
  }

  void add_and_send_sums(Wire& wire) {
    const Pieces sums = messages_->add_parts();
    if (sums.empty()) return;
    for (int i = 1; i < size_; ++i) {
      const int peer = (rank_ + i) % size_;
      wire.send(peer, tag(1), sums, id_of(kSumsSent, peer));
      untaken_[static_cast<std::size_t>(peer)] = true;
      ++open_;
    }
  }

  std::shared_ptr<const ReductionPlan> plan_;
  HostReduction segment_;
  Staging& pool_;
  int rank_ = 0;
  int size_ = 1;
  std::unique_ptr<SumMessages> messages_;
  std::vector<bool> missing_;  // whose parts have not come
  std::vector<bool> owed_;     // whose sums have not come
  std::vector<bool> untaken_;  // who has not taken this rank's sums
  int num_missing_ = 0;
  int open_ = 0;  // messages in progress
};

}  // namespace

std::unique_ptr<Exchange> make_sum_exchange(std::int64_t number,
                                            std::shared_ptr<const ReductionPlan> plan,
                                            HostReduction segment, Staging& staging) {
  return std::make_unique<SumExchange>(number, std::move(plan), std::move(segment), staging);
}

std::vector<Run> runs_of(const HostReduction& segment, int owner, int world_size) {
  const std::int64_t offset = segment.offset;
  const std::int64_t segment_end = offset + static_cast<std::int64_t>(segment.parts[0].size());
  std::vector<Run> runs;
  for (std::int64_t at = offset; at < segment_end;) {
    const std::int64_t end = std::min(segment_end, (at / kOwnerBlock + 1) * kOwnerBlock);
    if (owner_of(at, world_size) == owner) {
      if (!runs.empty() && runs.back().begin + runs.back().length == at - offset) {
        runs.back().length += end - at;
      } else {
        runs.push_back({at - offset, end - at});
      }
    }
    at = end;
  }
  return runs;
}

std::int64_t total(const std::vector<Run>& runs) {
  std::int64_t sum = 0;
  for (const Run& run : runs) sum += run.length;
  return sum;
}

HostReduction on_host(const Reduction& reduction) {
  HostReduction result{{}, reduction.offset, reduction.codec};
  for (const tensor::Slice& part : reduction.parts) {
    result.parts.push_back(tensor::host_span(part));
  }
  return result;
}

std::vector<HostReduction> segments_of(const ReductionPlan& plan, const HostReduction& reduction) {
  const auto world_size = static_cast<std::int64_t>(plan.parts_of_rank.size());
  const std::int64_t blocks =
      std::clamp<std::int64_t>(kBlocksPerStaging / plan.total_parts(), 1, kBlocksPerMessage);
  const std::int64_t step = blocks * world_size * kOwnerBlock;
  const std::int64_t end = reduction.offset + static_cast<std::int64_t>(reduction.parts[0].size());
  std::vector<HostReduction> segments;
  for (std::int64_t begin = reduction.offset; begin < end;) {
    const std::int64_t next = std::min(end, (begin / step + 1) * step);
    HostReduction segment{{}, begin, reduction.codec};
    for (const auto& part : reduction.parts) {
      segment.parts.push_back(part.subspan(static_cast<std::size_t>(begin - reduction.offset),
                                           static_cast<std::size_t>(next - begin)));
    }
    segments.push_back(std::move(segment));
    begin = next;
  }
  return segments;
}

}  // namespace coxswain::comm
