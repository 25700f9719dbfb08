#include "trainer/comm/sum_messages.h"
#include "trainer/comm/sum_parts.h"

namespace coxswain::comm {

namespace {

class PlainMessages final : public SumMessages {
 public:
  explicit PlainMessages(const SumSide& side)
      : side_(side),
        own_runs_(side.runs_of_rank(side.rank)),
        length_(total(own_runs_)),
        num_own_(static_cast<int>(side.segment.parts.size())) {
    const int others = side.plan.total_parts() - num_own_;
    if (length_ > 0 && others > 0) staging_ = side.staging.take(length_ * others);
  }

  ~PlainMessages() override {
    if (staging_.size() > 0) side_.staging.give_back(std::move(staging_));
  }

  Pieces parts_for(int owner) override {
    Pieces pieces;
    for (const auto& part : side_.segment.parts) append(pieces, part, side_.runs_of_rank(owner));
    return pieces;
  }

  // They lie in the staging buffer part after part, without this rank's.
  Pieces room_for_parts(int peer) override {
    const int count = side_.plan.parts_of_rank[static_cast<std::size_t>(peer)];
    if (length_ == 0 || count == 0) return {};
    const int before = side_.plan.first_part(peer) - (peer > side_.rank ? num_own_ : 0);
    return {bytes_of(staging_.data() + length_ * before, length_ * count)};
  }

  Pieces add_parts() override {
    const int first_own = side_.plan.first_part(side_.rank);
    std::vector<float*> parts(static_cast<std::size_t>(side_.plan.total_parts()));
    std::int64_t done = 0;
    for (const Run& run : own_runs_) {
      float* staged = staging_.data() + done;
      for (int part = 0; part < static_cast<int>(parts.size()); ++part) {
        float*& at = parts[static_cast<std::size_t>(part)];
        if (part >= first_own && part < first_own + num_own_) {
          at = side_.segment.parts[static_cast<std::size_t>(part - first_own)].data() + run.begin;
        } else {
          at = staged;
          staged += length_;
        }
      }
      sum_parts(side_.plan.adds, parts, run.length, side_.segment.parts[0].data() + run.begin);
      done += run.length;
    }
    return room_for_sums(side_.rank);
  }

  // In the memory that was just read.
  Pieces room_for_sums(int owner) override {
    Pieces pieces;
    append(pieces, side_.segment.parts[0], side_.runs_of_rank(owner));
    return pieces;
  }

  void take_sums(int) override {}

 private:
  static void append(Pieces& pieces, std::span<float> part, const std::vector<Run>& runs) {
    for (const Run& run : runs) pieces.push_back(bytes_of(part.data() + run.begin, run.length));
  }

  const SumSide side_;
  const std::vector<Run> own_runs_;
  const std::int64_t length_;  // of them
  const int num_own_;          // parts
  tensor::AlignedBuffer<float> staging_;
};

}  // namespace

std::unique_ptr<SumMessages> make_plain_messages(const SumSide& side) {
  return std::make_unique<PlainMessages>(side);
}

}  // namespace coxswain::comm
