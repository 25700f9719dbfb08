#include <algorithm>

#include "trainer/comm/sum_messages.h"
#include "trainer/comm/sum_parts.h"

namespace coxswain::comm {

namespace {

// A block of the segment, as the codec counts them and as it lies here.
struct Block {
  std::int64_t offset = 0;
  std::span<float> floats;
};

class CodedMessages final : public SumMessages {
 public:
  explicit CodedMessages(const SumSide& side)
      : side_(side), codec_(*side.segment.codec), own_(blocks_of(side.rank)) {
    for (const Block& block : own_) peer_bytes_ += std::ssize(written(block));
    if (own_.empty() || side.size == 1) return;
    // Each peer's bytes, then one block's floats of each.
    staging_ = side.staging.take((side.size - 1) * (staged_floats() + kOwnerBlock));
  }

  ~CodedMessages() override {
    if (staging_.size() > 0) side_.staging.give_back(std::move(staging_));
  }

  Pieces parts_for(int owner) override {
    for (const Block& block : blocks_of(owner)) codec_.encode(block.offset, block.floats);
    return room_for_sums(owner);
  }

  Pieces room_for_parts(int peer) override {
    if (own_.empty()) return {};
    return {bytes_from(peer)};
  }

  Pieces add_parts() override {
    std::size_t at = 0;
    for (const Block& block : own_) {
      add(block, at);
      at += written(block).size();
      codec_.encode(block.offset, block.floats);
      codec_.decode(block.offset, written(block), block.floats);  // as all others do
    }
    return room_for_sums(side_.rank);
  }

  // In the memory that was just read.
  Pieces room_for_sums(int owner) override {
    Pieces pieces;
    for (const Block& block : blocks_of(owner)) pieces.push_back(written(block));
    return pieces;
  }

  void take_sums(int owner) override {
    for (const Block& block : blocks_of(owner))
      codec_.decode(block.offset, written(block), block.floats);
  }

 private:
  std::vector<Block> blocks_of(int owner) const {
    std::vector<Block> blocks;
    for (const Run& run : side_.runs_of_rank(owner))
      for (std::int64_t at = 0; at < run.length; at += kOwnerBlock)
        blocks.push_back({side_.segment.offset + run.begin + at,
                          side_.segment.parts[0].subspan(
                              static_cast<std::size_t>(run.begin + at),
                              static_cast<std::size_t>(std::min(kOwnerBlock, run.length - at)))});
    return blocks;
  }

  std::span<std::byte> written(const Block& block) {
    return codec_.bytes_of(block.offset, std::ssize(block.floats));
  }

  // Of a peer's bytes, so that the floats behind them are aligned.
  std::int64_t staged_floats() const {
    constexpr std::int64_t kLine = 64;
    return (peer_bytes_ + kLine - 1) / kLine * (kLine / static_cast<std::int64_t>(sizeof(float)));
  }

  std::span<std::byte> bytes_from(int peer) {
    const int index = peer - (peer > side_.rank ? 1 : 0);
    return std::as_writable_bytes(staging_.span())
        .subspan(static_cast<std::size_t>(index * staged_floats()) * sizeof(float),
                 static_cast<std::size_t>(peer_bytes_));
  }

  // `at`: where the block begins in each peer's bytes.
  void add(const Block& block, std::size_t at) {
    std::vector<float*> parts(static_cast<std::size_t>(side_.size), block.floats.data());
    float* read = staging_.data() + (side_.size - 1) * staged_floats();
    for (int peer = 0; peer < side_.size; ++peer) {
      if (peer == side_.rank) continue;
      codec_.decode(block.offset, bytes_from(peer).subspan(at, written(block).size()),
                    std::span(read, block.floats.size()));
      parts[static_cast<std::size_t>(peer)] = read;
      read += kOwnerBlock;
    }
    sum_parts(side_.plan.adds, parts, std::ssize(block.floats), block.floats.data());
  }

  const SumSide side_;
  BlockCodec& codec_;
  const std::vector<Block> own_;
  std::int64_t peer_bytes_ = 0;  // of a peer's parts of these
  tensor::AlignedBuffer<float> staging_;
};

}  // namespace

std::unique_ptr<SumMessages> make_coded_messages(const SumSide& side) {
  return std::make_unique<CodedMessages>(side);
}

}  // namespace coxswain::comm
