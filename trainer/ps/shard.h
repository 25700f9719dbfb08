#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/optim/update_rule.h"
#include "trainer/ps/shards.h"
#include "trainer/tensor/aligned_buffer.h"

namespace coxswain::ps {

// Value. What the flat buffer of a job is and who holds it: alike on all workers and servers.
struct Plan {
  tensor::ParameterLayout layout;
  int num_slots = 0;
  ShardMap map;
};

// Resource. What one server holds: its pieces of the weights, the slots and a step's gradients,
// each dense and in the order of the flat buffer.
class Shard {
 public:
  Shard(const Plan& plan, int server);

  const std::vector<Piece>& pieces() const { return pieces_; }
  std::span<float> weights() { return {weights_.data(), weights_.size()}; }
  std::span<float> gradients() { return {gradients_.data(), gradients_.size()}; }
  std::span<float> slot(int index) {
    auto& slot = slots_[static_cast<std::size_t>(index)];
    return {slot.data(), slot.size()};
  }
  int num_slots() const { return static_cast<int>(slots_.size()); }
  // The weights (0), then the slots.
  std::span<float> array(int index) { return index == 0 ? weights() : slot(index - 1); }
  // A piece of one of these.
  static std::span<float> of(std::span<float> all, const Piece& piece) {
    return all.subspan(static_cast<std::size_t>(piece.local),
                       static_cast<std::size_t>(piece.length));
  }
  // The piece that is this range of the flat buffer; nullptr: none is.
  const Piece* find(std::int64_t offset, std::int64_t length) const;
  const Piece* find(std::int64_t offset) const;  // that begins there

  // The same floats that a worker would have after optim::update of the whole buffer.
  void update(const optim::UpdateRule& rule, const optim::UpdateStep& step) {
    update(rule, step, gradients());
  }
  void update(const optim::UpdateRule& rule, const optim::UpdateStep& step,
              std::span<float> gradients);

 private:
  // A part of a segment that lies here.
  struct Part {
    tensor::SegmentKind kind;
    std::size_t local = 0;
    std::size_t length = 0;
  };

  std::vector<Piece> pieces_;
  std::vector<Part> parts_;
  tensor::AlignedBuffer<float> weights_;
  tensor::AlignedBuffer<float> gradients_;
  std::vector<tensor::AlignedBuffer<float>> slots_;
};

}  // namespace coxswain::ps
