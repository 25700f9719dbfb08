#include "trainer/comm/exchange.h"

#include <algorithm>
#include <bit>

namespace coxswain::comm {

namespace {

constexpr int kIndexBits = 20;     // messages of one exchange
constexpr int kTagNumbers = 4096;  // far more than exchanges are in progress at once
constexpr int kPhases = 4;

class BroadcastExchange final : public Exchange {
 public:
  BroadcastExchange(std::int64_t number, std::span<std::byte> bytes, int root)
      : Exchange(number), bytes_(bytes), root_(root) {}

  // With ranks counted from the root, rank r hears from r minus its lowest bit, and passes on to
  // r + 1, r + 2, r + 4, ... below that bit.
  void start(Wire& wire) override {
    const int size = wire.size();
    const int from_root = (wire.rank() - root_ + size) % size;
    int lowest_bit = 1;
    while (lowest_bit < size && from_root % (2 * lowest_bit) == 0) lowest_bit *= 2;
    for (int step = lowest_bit / 2; step > 0; step /= 2) {
      if (from_root + step < size) children_.push_back((wire.rank() + step) % size);
    }
    if (from_root == 0) {
      pass_on(wire);
      return;
    }
    open_ = 1;
    const int parent = (wire.rank() - lowest_bit + size) % size;
    from_ = {parent, std::popcount(static_cast<unsigned>(from_root))};
    wire.receive(parent, tag(0), {bytes_}, message_id(kFromParent));
  }

  void finished(Wire& wire, MessageId id) override {
    --open_;
    if (index_of(id) == kFromParent) {
      from_.reset();
      pass_on(wire);
    } else {
      taken_[static_cast<std::size_t>(index_of(id) - 1)] = true;
    }
  }

  bool done() const override { return open_ == 0; }

  std::optional<Late> waits_for() const override {
    if (from_) return from_;
    const auto child = first_with(taken_, false);
    if (!child) return std::nullopt;
    return Late{children_[static_cast<std::size_t>(*child)], 0};
  }

 private:
  static constexpr std::int64_t kFromParent = 0;

  void pass_on(Wire& wire) {
    open_ += static_cast<int>(children_.size());
    taken_.assign(children_.size(), false);
    for (std::size_t i = 0; i < children_.size(); ++i) {
      wire.send(children_[i], tag(0), {bytes_}, message_id(1 + static_cast<std::int64_t>(i)));
    }
  }

  std::span<std::byte> bytes_;
  int root_;
  std::optional<Late> from_;  // until its bytes have come
  std::vector<int> children_;
  std::vector<bool> taken_;  // by each child
  int open_ = 0;
};

class BarrierExchange final : public Exchange {
 public:
  using Exchange::Exchange;

  void start(Wire& wire) override {
    size_ = wire.size();
    missing_.assign(static_cast<std::size_t>(size_), false);
    for (int peer = 0; peer < size_; ++peer) {
      if (peer == wire.rank()) continue;
      wire.receive(peer, tag(0), {}, message_id(peer));
      wire.send(peer, tag(0), {}, message_id(size_ + peer));
      missing_[static_cast<std::size_t>(peer)] = true;
      open_ += 2;
    }
    untold_ = missing_;
  }

  void finished(Wire&, MessageId id) override {
    --open_;
    const auto peer = static_cast<std::size_t>(index_of(id) % size_);
    (index_of(id) < size_ ? missing_ : untold_)[peer] = false;
  }

  bool done() const override { return open_ == 0; }

  std::optional<Late> waits_for() const override {
    for (const auto* of : {&missing_, &untold_}) {
      if (const auto peer = first_with(*of, true)) return Late{*peer, 0};
    }
    return std::nullopt;
  }

 private:
  int size_ = 0;
  std::vector<bool> missing_;  // who has not come
  std::vector<bool> untold_;   // that this rank has
  int open_ = 0;
};

}  // namespace

tensor::AlignedBuffer<float> Staging::take(std::int64_t count) {
  const auto fits = std::find_if(free_.begin(), free_.end(), [&](const auto& buffer) {
    return static_cast<std::int64_t>(buffer.size()) >= count;
  });
  if (fits == free_.end()) return tensor::AlignedBuffer<float>(count);
  std::swap(*fits, free_.back());
  tensor::AlignedBuffer<float> buffer = std::move(free_.back());
  free_.pop_back();
  return buffer;
}

void Staging::give_back(tensor::AlignedBuffer<float> buffer) {
  constexpr std::size_t kKept = 8;
  if (free_.size() == kKept) {
    const auto smallest = std::min_element(free_.begin(), free_.end(),
                                           [](auto& a, auto& b) { return a.size() < b.size(); });
    if (smallest->size() < buffer.size()) *smallest = std::move(buffer);
    return;
  }
  free_.push_back(std::move(buffer));
}

MessageId Exchange::message_id(std::int64_t index) const {
  return static_cast<MessageId>((number_ << kIndexBits) | index);
}

std::int64_t Exchange::index_of(MessageId id) {
  return static_cast<std::int64_t>(id & ((MessageId{1} << kIndexBits) - 1));
}

int Exchange::tag(int phase) const {
  return static_cast<int>(number_ % kTagNumbers) * kPhases + phase;
}

std::optional<int> first_with(const std::vector<bool>& of_peers, bool value) {
  const auto first = std::find(of_peers.begin(), of_peers.end(), value);
  if (first == of_peers.end()) return std::nullopt;
  return static_cast<int>(first - of_peers.begin());
}

std::int64_t exchange_of(MessageId id) { return static_cast<std::int64_t>(id >> kIndexBits); }

std::unique_ptr<Exchange> make_broadcast_exchange(std::int64_t number, std::span<std::byte> bytes,
                                                  int root) {
  return std::make_unique<BroadcastExchange>(number, bytes, root);
}

std::unique_ptr<Exchange> make_barrier_exchange(std::int64_t number) {
  return std::make_unique<BarrierExchange>(number);
}

}  // namespace coxswain::comm
