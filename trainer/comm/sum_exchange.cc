#include <algorithm>

#include "trainer/comm/exchange.h"
#include "trainer/comm/sum_parts.h"
#include "trainer/tensor/host_span.h"

namespace coxswain::comm {

namespace {

// Of one message (measured over shared memory and TCP: 1 MiB is as fast as 4, and 256 KiB slower),
// and of all that an owner receives for one segment.
constexpr std::int64_t kBlocksPerMessage = 16;
constexpr std::int64_t kBlocksPerStaging = 64;

struct Run {  // of floats, from the start of the segment
  std::int64_t begin = 0;
  std::int64_t length = 0;
};

// The blocks of a segment that `owner` sums; neighbours are one run.
std::vector<Run> runs_of(std::int64_t offset, std::int64_t length, int owner, int world_size) {
  std::vector<Run> runs;
  for (std::int64_t at = offset; at < offset + length;) {
    const std::int64_t end = std::min(offset + length, (at / kOwnerBlock + 1) * kOwnerBlock);
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

std::span<std::byte> bytes_of(float* data, std::int64_t count) {
  return std::as_writable_bytes(std::span(data, static_cast<std::size_t>(count)));
}

void append(Pieces& pieces, std::span<float> part, const std::vector<Run>& runs) {
  for (const Run& run : runs) pieces.push_back(bytes_of(part.data() + run.begin, run.length));
}

class SumExchange final : public Exchange {
 public:
  SumExchange(std::int64_t number, std::shared_ptr<const ReductionPlan> plan,
              HostReduction segment, Staging& staging)
      : Exchange(number), plan_(std::move(plan)), segment_(std::move(segment)), pool_(staging) {}

  ~SumExchange() override {
    if (staging_.size() > 0) pool_.give_back(std::move(staging_));
  }

  void start(Wire& wire) override {
    rank_ = wire.rank();
    size_ = wire.size();
    own_runs_ = runs_of_rank(rank_);
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
        receive_sums(wire, peer);  // into the memory that was just read
        break;
      case kSumsReceived:
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

  std::vector<Run> runs_of_rank(int owner) const {
    return runs_of(segment_.offset, static_cast<std::int64_t>(segment_.parts[0].size()), owner,
                   size_);
  }

  // The others' parts of the own blocks lie in the staging buffer part after part.
  void receive_parts(Wire& wire) {
    const std::int64_t length = total(own_runs_);
    const int own_parts = plan_->parts_of_rank[static_cast<std::size_t>(rank_)];
    const int others = plan_->total_parts() - own_parts;
    if (length == 0 || others == 0) return;
    staging_ = pool_.take(length * others);
    float* to = staging_.data();
    for (int peer = 0; peer < size_; ++peer) {
      if (peer == rank_) continue;
      const std::int64_t count = length * plan_->parts_of_rank[static_cast<std::size_t>(peer)];
      wire.receive(peer, tag(0), {bytes_of(to, count)}, id_of(kPartsReceived, peer));
      missing_[static_cast<std::size_t>(peer)] = true;
      ++num_missing_;
      ++open_;
      to += count;
    }
  }

  void send_parts(Wire& wire, int owner) {
    const std::vector<Run> runs = runs_of_rank(owner);
    if (runs.empty()) return;
    Pieces pieces;
    for (const auto& part : segment_.parts) append(pieces, part, runs);
    wire.send(owner, tag(0), pieces, id_of(kPartsSent, owner));
    owed_[static_cast<std::size_t>(owner)] = true;
    ++open_;
  }

  void receive_sums(Wire& wire, int owner) {
    Pieces pieces;
    append(pieces, segment_.parts[0], runs_of_rank(owner));
    wire.receive(owner, tag(1), pieces, id_of(kSumsReceived, owner));
    ++open_;
  }

  void add_and_send_sums(Wire& wire) {
    if (own_runs_.empty()) return;
    add_parts();
    Pieces pieces;
    append(pieces, segment_.parts[0], own_runs_);
    for (int i = 1; i < size_; ++i) {
      const int peer = (rank_ + i) % size_;
      wire.send(peer, tag(1), pieces, id_of(kSumsSent, peer));
      untaken_[static_cast<std::size_t>(peer)] = true;
      ++open_;
    }
  }

  void add_parts() {
    const std::int64_t length = total(own_runs_);
    const int first_own = plan_->first_part(rank_);
    const int num_own = static_cast<int>(segment_.parts.size());
    std::vector<float*> parts(static_cast<std::size_t>(plan_->total_parts()));
    std::int64_t done = 0;
    for (const Run& run : own_runs_) {
      float* staged = staging_.data() + done;
      for (int part = 0; part < static_cast<int>(parts.size()); ++part) {
        float*& at = parts[static_cast<std::size_t>(part)];
        if (part >= first_own && part < first_own + num_own) {
          at = segment_.parts[static_cast<std::size_t>(part - first_own)].data() + run.begin;
        } else {
          at = staged;
          staged += length;
        }
      }
      sum_parts(*plan_, parts, run.length, segment_.parts[0].data() + run.begin);
      done += run.length;
    }
  }

  std::shared_ptr<const ReductionPlan> plan_;
  HostReduction segment_;
  Staging& pool_;
  int rank_ = 0;
  int size_ = 1;
  std::vector<Run> own_runs_;
  tensor::AlignedBuffer<float> staging_;
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

HostReduction on_host(const Reduction& reduction) {
  HostReduction result{{}, reduction.offset};
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
    HostReduction segment;
    segment.offset = begin;
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
