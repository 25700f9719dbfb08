#include "trainer/ps/shard.h"

#include <algorithm>

namespace coxswain::ps {

Shard::Shard(const Plan& plan, int server)
    : pieces_(plan.map.of_server(server)),
      weights_(plan.map.load(server)),
      gradients_(plan.map.load(server)) {
  for (int slot = 0; slot < plan.num_slots; ++slot) slots_.emplace_back(plan.map.load(server));
  auto segment = plan.layout.segments.begin();
  for (const Piece& piece : pieces_) {
    const std::int64_t end = piece.offset + piece.length;
    while (segment->end() <= piece.offset) ++segment;
    for (auto in = segment; in != plan.layout.segments.end() && in->offset < end; ++in) {
      const std::int64_t first = std::max(piece.offset, in->offset);
      const std::int64_t last = std::min(end, in->end());
      parts_.push_back({in->kind, static_cast<std::size_t>(piece.local + first - piece.offset),
                        static_cast<std::size_t>(last - first)});
    }
  }
}

const Piece* Shard::find(std::int64_t offset) const {
  const auto at = std::ranges::lower_bound(pieces_, offset, {}, &Piece::offset);
  return at != pieces_.end() && at->offset == offset ? &*at : nullptr;
}

const Piece* Shard::find(std::int64_t offset, std::int64_t length) const {
  const Piece* piece = find(offset);
  return piece != nullptr && piece->length == length ? piece : nullptr;
}

void Shard::update(const optim::UpdateRule& rule, const optim::UpdateStep& step,
                   std::span<float> gradients) {
  for (const Part& part : parts_) {
    const auto of = [&part](std::span<float> all) { return all.subspan(part.local, part.length); };
    optim::SegmentPart segment{part.kind, of(weights()), of(gradients), {}};
    for (int i = 0; i < num_slots(); ++i) segment.slots[static_cast<std::size_t>(i)] = of(slot(i));
    optim::update(rule, step, segment);
  }
}

}  // namespace coxswain::ps
