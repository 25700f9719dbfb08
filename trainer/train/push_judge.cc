#include "trainer/train/push_judge.h"

#include <fmt/format.h>

#include <cmath>

#include "trainer/optim/update_rule.h"

namespace coxswain::train {

namespace {

std::string describe_kind(const compress::Codec& codec) {
  switch (codec.kind) {
    case Compression::kNone:
      return "floats";
    case Compression::kTwoBit:
      return fmt::format("{}, threshold {:.6g}", word(codec.kind), codec.threshold);
    case Compression::kTopK:
      return fmt::format("{}, ratio {:.6g}", word(codec.kind), codec.ratio);
    default:
      return std::string(word(codec.kind));
  }
}

}  // namespace

std::string_view key_of(const compress::Codec& codec) {
  return codec.kind == Compression::kNone ? "communication.partial" : "communication.compression";
}

std::string describe(const compress::Codec& codec) {
  const std::string kind = describe_kind(codec);
  return codec.parts == 1 ? kind : fmt::format("{}, one of {} parts a step", kind, codec.parts);
}

std::string note_of(const compress::Codec& codec, std::int64_t bytes, std::int64_t plain_bytes) {
  return fmt::format("gradients are sent as {}: {} bytes a step instead of {}", describe(codec),
                     bytes, plain_bytes);
}

std::vector<std::string> notes_of(const compress::Codec& codec,
                                  const compress::BlockEncoder& encoder) {
  if (!encoder.encodes() || encoder.bytes() == encoder.plain_bytes()) return {};
  return {note_of(codec, encoder.bytes(), encoder.plain_bytes())};
}

std::string warning_of(const compress::Codec& codec, const compress::Balance& balance,
                       bool is_left) {
  constexpr double kMs = 1000;
  const bool is_partial = codec.kind == Compression::kNone;
  return fmt::format(
      "{} {} does not pay here: of a step it takes {:.2f} ms and spares {:.2f} ms on the network: "
      "{}",
      key_of(codec), is_partial ? std::to_string(codec.parts) : std::string(word(codec.kind)),
      balance.taken * kMs, balance.spared * kMs,
      is_left      ? "gradients are sent exactly from now on"
      : is_partial ? "write 1"
                   : "write none");
}

std::string warning_of(const compress::Codec& codec, std::int64_t step) {
  const bool is_two_bit = codec.kind == Compression::kTwoBit;
  return fmt::format(
      "what {} leaves out keeps growing up to step {}, and is many times a step's gradients: {}",
      describe(codec), step,
      is_two_bit ? "lower communication.compressionThreshold"
                 : "write another communication.compression, or lower optimizer.lr");
}

PushJudge::Opinion PushJudge::after(std::int64_t step, const Evidence& evidence) {
  ++steps_;
  if (steps_ == kWarmUp + kMeasured) {
    const auto balance = compress::balance_of(evidence.measured());
    if (balance && !balance->pays()) return {warning_of(codec_, *balance, may_leave_), may_leave_};
  }
  if (steps_ % compress::ResidualWatch::kEverySteps != 0) return {};
  if (!watch_.piles_up(evidence.residuals(), evidence.gradients())) return {};
  return {warning_of(codec_, step)};
}

double norm_of(const tensor::ParameterLayout& layout, std::span<const float> flat) {
  double squares = 0;
  for (const tensor::Segment& segment : layout.segments) {
    if (!tensor::is_trainable(segment.kind)) continue;
    squares += optim::sum_of_squares(flat.subspan(static_cast<std::size_t>(segment.offset),
                                                  static_cast<std::size_t>(segment.stored)));
  }
  return std::sqrt(squares);
}

}  // namespace coxswain::train
