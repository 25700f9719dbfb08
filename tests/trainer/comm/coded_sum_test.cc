#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <random>

#include "tests/support/test_flags.h"
#include "trainer/comm/exchange.h"
#include "trainer/compress/block_encoder.h"

// Sums whose parts travel in fewer bytes, over a wire that finishes messages in any order, against
// one loop over all ranks' parts.
namespace coxswain::comm {
namespace {

using Floats = std::vector<float>;
using compress::BlockEncoder;
using compress::Codec;
using Random = std::mt19937_64;

std::size_t below(Random& random, std::size_t count) { return random() % count; }

// All ranks' messages, of which any that can move is the next.
class Bed {
 public:
  struct Message {
    int from = 0;
    int to = 0;
    int tag = 0;
    Pieces pieces;
    MessageId id = 0;
  };
  struct Finished {
    int rank = 0;
    MessageId id = 0;
  };

  void send(Message message) { sends_.push_back(std::move(message)); }
  void receive(Message message) { receives_.push_back(std::move(message)); }
  std::int64_t bytes() const { return bytes_; }

  // Nullopt: nothing is left to be done.
  std::optional<Finished> next(Random& random) {
    while (move_one(random) && below(random, 3) != 0) continue;
    if (finished_.empty()) return std::nullopt;
    std::swap(finished_[below(random, finished_.size())], finished_.back());
    const Finished told = finished_.back();
    finished_.pop_back();
    return told;
  }

 private:
  static bool match(const Message& a, const Message& b) {
    return a.from == b.from && a.to == b.to && a.tag == b.tag;
  }

  bool move_one(Random& random) {
    std::vector<std::size_t> ready;
    for (std::size_t i = 0; i < sends_.size(); ++i)
      if (std::ranges::any_of(receives_, [&](auto& r) { return match(sends_[i], r); }))
        ready.push_back(i);
    if (ready.empty()) return false;
    const auto send =
        sends_.begin() + static_cast<std::ptrdiff_t>(ready[below(random, ready.size())]);
    const auto receive = std::ranges::find_if(receives_, [&](auto& r) { return match(*send, r); });
    copy(*send, *receive);
    finished_.push_back({send->from, send->id});
    finished_.push_back({receive->to, receive->id});
    sends_.erase(send);
    receives_.erase(receive);
    return true;
  }

  void copy(const Message& from, const Message& to) {
    std::vector<std::byte> bytes;
    for (const auto& piece : from.pieces) bytes.insert(bytes.end(), piece.begin(), piece.end());
    std::size_t at = 0;
    for (const auto& piece : to.pieces) {
      ASSERT_LE(at + piece.size(), bytes.size());
      std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), piece.size(), piece.begin());
      at += piece.size();
    }
    ASSERT_EQ(at, bytes.size());
    bytes_ += std::ssize(bytes);
  }

  std::deque<Message> sends_;
  std::deque<Message> receives_;
  std::vector<Finished> finished_;
  std::int64_t bytes_ = 0;
};

class BedWire final : public Wire {
 public:
  BedWire(Bed& bed, int rank, int size) : bed_(bed), rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void send(int peer, int tag, const Pieces& pieces, MessageId id) override {
    bed_.send({rank_, peer, tag, pieces, id});
  }
  void receive(int peer, int tag, const Pieces& pieces, MessageId id) override {
    bed_.receive({peer, rank_, tag, pieces, id});
  }
  void send_beats() override {}
  News poll() override { return {}; }
  void close() override {}

 private:
  Bed& bed_;
  int rank_;
  int size_;
};

class EncoderCodec final : public BlockCodec {
 public:
  explicit EncoderCodec(BlockEncoder& encoder) : encoder_(encoder) {}
  std::span<std::byte> bytes_of(std::int64_t offset, std::int64_t length) override {
    return encoder_.bytes_of(offset, length);
  }
  void encode(std::int64_t offset, std::span<const float> block) override {
    encoder_.encode(offset, block);
  }
  void decode(std::int64_t offset, std::span<const std::byte> bytes,
              std::span<float> block) override {
    encoder_.decode(offset, bytes, block);
  }

 private:
  BlockEncoder& encoder_;
};

struct Rank {
  Rank(const tensor::ParameterLayout& layout, const Codec& of)
      : encoder(layout, kOwnerBlock, of), codec(encoder) {}
  BlockEncoder encoder;
  EncoderCodec codec;
  Floats gradients;
};

// Statistics, gradients of the given length and the control segment.
tensor::ParameterLayout layout_of(std::int64_t length) {
  return tensor::pack(
      {{.name = "mean", .kind = tensor::SegmentKind::kStatistic, .dims = {40}, .stored = 48},
       {.name = "w", .dims = {length}, .stored = (length + 15) / 16 * 16}});
}

Floats gradients_of(std::int64_t size, Random& random) {
  std::normal_distribution<float> normal(0, 0.1F);
  Floats values(static_cast<std::size_t>(size));
  std::ranges::generate(values, [&] { return normal(random); });
  return values;
}

// In segments cut at random blocks, all at once.
std::int64_t sum(std::vector<std::unique_ptr<Rank>>& ranks, Random& random) {
  const int size = static_cast<int>(ranks.size());
  const auto plan = std::make_shared<const ReductionPlan>(in_rank_order(size));
  const std::int64_t floats = std::ssize(ranks[0]->gradients);
  Bed bed;
  Staging staging;
  std::deque<BedWire> wires;
  for (int rank = 0; rank < size; ++rank) wires.emplace_back(bed, rank, size);
  std::vector<std::vector<std::unique_ptr<Exchange>>> exchanges(ranks.size());
  for (std::int64_t begin = 0; begin < floats;) {
    const auto blocks = static_cast<std::int64_t>(below(random, 4) + 1);
    const std::int64_t end = std::min(floats, begin + blocks * kOwnerBlock);
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      HostReduction segment{
          {std::span(ranks[rank]->gradients)
               .subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin))},
          begin,
          &ranks[rank]->codec};
      exchanges[rank].push_back(
          make_sum_exchange(std::ssize(exchanges[rank]), plan, std::move(segment), staging));
    }
    begin = end;
  }
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    for (auto& exchange : exchanges[rank]) exchange->start(wires[rank]);
  while (const auto told = bed.next(random)) {
    const auto rank = static_cast<std::size_t>(told->rank);
    exchanges[rank][static_cast<std::size_t>(exchange_of(told->id))]->finished(wires[rank],
                                                                               told->id);
  }
  for (auto& of_rank : exchanges)
    for (auto& exchange : of_rank) EXPECT_TRUE(exchange->done());
  return bed.bytes();
}

// What all ranks are to have of one block, and what each leaves out.
struct Loop {
  const tensor::ParameterLayout& layout;
  const Codec& codec;
  int step;
  std::vector<Floats>& residuals;

  compress::BlockForm form_at(std::int64_t offset) const {
    const std::int64_t blocks = (layout.size() + kOwnerBlock - 1) / kOwnerBlock;
    const bool sends = offset / kOwnerBlock * codec.parts / blocks == step % codec.parts;
    using Turn = compress::BlockForm::Turn;
    return {layout, codec, sends ? Turn::kSends : Turn::kRests};
  }

  std::int64_t bytes() const {
    std::int64_t all = 0;
    for (std::int64_t at = 0; at < layout.size(); at += kOwnerBlock)
      all += form_at(at).bytes_of(at, std::min(kOwnerBlock, layout.size() - at));
    return all;
  }

  Floats read(std::int64_t offset, const Floats& block, std::size_t rank,
              std::vector<Floats>& left) const {
    const auto at = static_cast<std::size_t>(offset);
    const compress::BlockForm form = form_at(offset);
    std::vector<std::byte> bytes(
        static_cast<std::size_t>(form.bytes_of(offset, std::ssize(block))));
    form.encode(offset, block, std::span(residuals[rank]).subspan(at, block.size()), bytes,
                std::span(left[rank]).subspan(at, block.size()));
    Floats floats(block.size());
    form.decode(offset, bytes, floats);
    return floats;
  }

  Floats sum(const std::vector<Floats>& gradients, std::vector<Floats>& left) const {
    Floats all;
    const auto size = std::ssize(gradients[0]);
    for (std::int64_t offset = 0; offset < size; offset += kOwnerBlock) {
      const auto owner =
          static_cast<std::size_t>(owner_of(offset, static_cast<int>(gradients.size())));
      Floats total;
      for (std::size_t rank = 0; rank < gradients.size(); ++rank) {
        const auto begin = gradients[rank].begin() + offset;
        const Floats block(begin, begin + std::min(kOwnerBlock, size - offset));
        const Floats part = rank == owner ? block : read(offset, block, rank, left);
        if (rank == 0)
          total = part;
        else
          for (std::size_t i = 0; i < part.size(); ++i) total[i] += part[i];
      }
      total = read(offset, total, owner, left);
      all.insert(all.end(), total.begin(), total.end());
    }
    return all;
  }
};

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return std::ranges::equal(std::as_bytes(a), std::as_bytes(b));
}

const std::vector<Codec>& codecs() {
  static const std::vector<Codec> all = {{.kind = Compression::kFp16},
                                         {.kind = Compression::kBf16},
                                         {.kind = Compression::kTwoBit, .threshold = 0.1F},
                                         {.kind = Compression::kOneBit},
                                         {.kind = Compression::kTopK, .ratio = 0.05},
                                         {.parts = 3},
                                         {.kind = Compression::kBf16, .parts = 2}};
  return all;
}

TEST(CodedSum, is_that_of_a_loop_on_every_rank) {
  const std::uint64_t seed = test::flags().seed_given ? test::flags().seed : 7;
  SCOPED_TRACE(fmt::format("--seed {}", seed));
  Random random(seed);
  for (int size = 1; size <= 5; ++size)
    for (const Codec& codec : codecs()) {
      SCOPED_TRACE(fmt::format("{} ranks, {} of {}", size, word(codec.kind), codec.parts));
      const auto least = (codec.parts - 1) * kOwnerBlock + 1;
      const auto layout =
          layout_of(static_cast<std::int64_t>(below(random, 12 * kOwnerBlock)) + least);
      std::vector<std::unique_ptr<Rank>> ranks;
      for (int rank = 0; rank < size; ++rank)
        ranks.push_back(std::make_unique<Rank>(layout, codec));
      std::vector<Floats> residuals(ranks.size(), Floats(static_cast<std::size_t>(layout.size())));
      for (int step = 0; step < 3; ++step) {
        std::vector<Floats> gradients, left = residuals;
        for (auto& rank : ranks)
          gradients.push_back(rank->gradients = gradients_of(layout.size(), random));
        const Loop loop{layout, codec, step, residuals};
        const Floats expected = loop.sum(gradients, left);
        for (auto& rank : ranks) rank->encoder.begin_step(step);
        EXPECT_EQ(sum(ranks, random), 2 * (size - 1) * loop.bytes());
        residuals = left;
        for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
          EXPECT_TRUE(same_bits(ranks[rank]->gradients, expected)) << rank;
          ranks[rank]->encoder.finish_step(true);
          EXPECT_TRUE(same_bits(ranks[rank]->encoder.residuals(), residuals[rank])) << rank;
        }
      }
    }
}

// What is left out anywhere comes later: nothing is lost, and statistics and control are exact.
TEST(CodedSum, says_in_the_end_all_that_there_was) {
  Random random(11);
  for (const Codec& codec : codecs()) {
    SCOPED_TRACE(fmt::format("{} of {}", word(codec.kind), codec.parts));
    const auto layout = layout_of(3 * kOwnerBlock);
    std::vector<std::unique_ptr<Rank>> ranks;
    for (int rank = 0; rank < 3; ++rank) ranks.push_back(std::make_unique<Rank>(layout, codec));
    std::vector<double> given(static_cast<std::size_t>(layout.size())), taken = given;
    for (int step = 0; step < 5; ++step) {
      if (step == 4)
        for (auto& rank : ranks) rank->encoder.push_exactly();
      Floats plain(given.size());
      for (auto& rank : ranks) {
        rank->encoder.begin_step(step);
        rank->gradients = gradients_of(layout.size(), random);
        for (std::size_t i = 0; i < given.size(); ++i) {
          plain[i] += rank->gradients[i];
          given[i] += rank->gradients[i];
        }
      }
      sum(ranks, random);
      const Floats& summed = ranks[0]->gradients;
      for (std::size_t i = 0; i < given.size(); ++i) {
        taken[i] += summed[i];
        const bool is_exact = i < 48 || i >= given.size() - tensor::kControlFloats;
        ASSERT_TRUE(!is_exact || summed[i] == plain[i]) << i;
      }
      for (auto& rank : ranks) rank->encoder.finish_step(true);
    }
    for (std::size_t i = 0; i < given.size(); ++i) ASSERT_NEAR(taken[i], given[i], 1e-4) << i;
  }
}

TEST(CodedSum, of_one_rank_alone_is_written_and_read_too) {
  Random random(5);
  const auto layout = layout_of(2 * kOwnerBlock);
  const auto alone = make_solo_communicator();
  for (const Codec& codec : codecs()) {
    Rank rank(layout, codec);
    rank.gradients = gradients_of(layout.size(), random);
    std::vector<Floats> residuals = {Floats(rank.gradients.size())}, left = residuals;
    const Floats expected = Loop{layout, codec, 0, residuals}.sum({rank.gradients}, left);
    alone->wait(alone->all_reduce_sum(in_rank_order(1), {{rank.gradients}, 0, &rank.codec}));
    EXPECT_TRUE(same_bits(rank.gradients, expected)) << word(codec.kind);
  }
}

TEST(CodedSum, is_of_whole_blocks_and_one_part_a_rank) {
  const auto layout = layout_of(kOwnerBlock);
  Rank rank(layout, {.kind = Compression::kFp16});
  Floats floats(32);
  Reduction reduction{{floats}, 16, &rank.codec};
  EXPECT_THROW(check_reduction(in_rank_order(1), reduction, 0, 1), Error);
  reduction.offset = kOwnerBlock;
  EXPECT_NO_THROW(check_reduction(in_rank_order(1), reduction, 0, 1));
  reduction.parts.push_back(reduction.parts[0]);
  EXPECT_THROW(check_reduction({{2}, {{0, 1}}}, reduction, 0, 1), Error);
}

TEST(CodedSum, is_not_finite_for_anyone_when_a_part_is_not) {
  Random random(3);
  for (const Codec& codec : codecs())
    for (const std::size_t bad : {std::size_t{0}, std::size_t{1}}) {
      SCOPED_TRACE(fmt::format("{}, rank {}", word(codec.kind), bad));
      const auto layout = layout_of(2 * kOwnerBlock);
      std::vector<std::unique_ptr<Rank>> ranks;
      for (int rank = 0; rank < 2; ++rank) ranks.push_back(std::make_unique<Rank>(layout, codec));
      for (auto& rank : ranks) rank->gradients = gradients_of(layout.size(), random);
      ranks[bad]->gradients[1000] = std::numeric_limits<float>::infinity();
      sum(ranks, random);
      for (auto& rank : ranks)
        EXPECT_FALSE(
            std::ranges::all_of(rank->gradients, [](float f) { return std::isfinite(f); }));
      EXPECT_TRUE(same_bits(ranks[0]->gradients, ranks[1]->gradients));
      const Floats before(static_cast<std::size_t>(layout.size()));
      for (auto& rank : ranks) {
        rank->encoder.finish_step(false);
        EXPECT_TRUE(same_bits(rank->encoder.residuals(), before)) << "the step is skipped";
      }
    }
}

}  // namespace
}  // namespace coxswain::comm
