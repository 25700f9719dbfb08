#include "trainer/compress/codec.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "trainer/contract/error.h"

namespace coxswain::compress {
namespace {

using Floats = std::vector<float>;
using Bytes = std::vector<std::byte>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

const std::vector<Codec>& codecs() {
  static const std::vector<Codec> kAll = {
      {.kind = Compression::kNone},
      {.kind = Compression::kFp16},
      {.kind = Compression::kBf16},
      {.kind = Compression::kTwoBit, .threshold = 0.5F},
      {.kind = Compression::kTwoBit, .threshold = 0.01F},
      {.kind = Compression::kOneBit},
      {.kind = Compression::kTopK, .ratio = 0.05},
      {.kind = Compression::kTopK, .ratio = 0.25},
  };
  return kAll;
}

std::string name_of(const Codec& codec) {
  return fmt::format("{} {} {}", word(codec.kind), codec.threshold, codec.ratio);
}

// What one encode() comes to.
struct Sent {
  Bytes bytes;
  Floats left;
  Floats read;  // by the other side
};

Sent send(const Codec& codec, const Floats& gradients, const Floats& residual) {
  Sent sent;
  sent.bytes.resize(static_cast<std::size_t>(encoded_bytes(codec, std::ssize(gradients))));
  sent.left.resize(gradients.size(), 77);
  sent.read.resize(gradients.size(), 77);
  encode(codec, gradients, residual, sent.bytes, sent.left);
  decode(codec, sent.bytes, sent.read);
  return sent;
}

// The nearest number with so many bits behind its first, and none below 2^least; ties to even.
double rounded(double value, int bits, int least, double largest) {
  if (value == 0 || !std::isfinite(value)) return value;
  const int exponent = std::max(std::ilogb(value) - bits, least);
  const double near = std::ldexp(std::nearbyint(std::ldexp(value, -exponent)), exponent);
  return std::clamp(near, -largest, largest);
}

// The slow loop: what the reader shall get of gradients and residual.
Floats model(const Codec& codec, const Floats& gradients, const Floats& residual) {
  Floats sums(gradients.size()), read(gradients.size());
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = gradients[i] + residual[i];
  switch (codec.kind) {
    case Compression::kNone:
      return sums;
    case Compression::kFp16:
      for (std::size_t i = 0; i < sums.size(); ++i)
        read[i] = static_cast<float>(rounded(sums[i], 10, -24, 65504));
      return read;
    case Compression::kBf16:
      for (std::size_t i = 0; i < sums.size(); ++i)
        read[i] = static_cast<float>(rounded(sums[i], 7, -133, std::ldexp(255, 120)));
      return read;
    case Compression::kTwoBit:
      for (std::size_t i = 0; i < sums.size(); ++i)
        if (std::fabs(sums[i]) >= codec.threshold)
          read[i] = std::copysign(codec.threshold, sums[i]);
      return read;
    case Compression::kOneBit: {
      double total = 0;
      for (const float sum : sums) total += std::fabs(static_cast<double>(sum));
      const auto mean = static_cast<float>(total / static_cast<double>(sums.size()));
      for (std::size_t i = 0; i < sums.size(); ++i) read[i] = sums[i] < 0 ? -mean : mean;
      return read;
    }
    case Compression::kTopK: {
      std::vector<std::size_t> order(sums.size());
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
      std::ranges::stable_sort(
          order, [&](auto a, auto b) { return std::fabs(sums[a]) > std::fabs(sums[b]); });
      order.resize(
          static_cast<std::size_t>(std::ceil(static_cast<double>(sums.size()) * codec.ratio)));
      for (const std::size_t i : order) read[i] = sums[i];
      return read;
    }
  }
  return read;
}

// Of all magnitudes, zeros and equal ones among them.
Floats draw(std::mt19937& random, std::size_t count) {
  std::normal_distribution<float> normal;
  Floats values(count);
  for (float& value : values) {
    const auto kind = random() % 8;
    if (kind == 0) continue;
    value = kind == 1 ? 0.5F : normal(random) * std::pow(10.0F, normal(random) * 2);
    if (kind == 2) value = -0.5F;
  }
  return values;
}

std::vector<std::uint32_t> bits_of(const Floats& values) {
  std::vector<std::uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value + 0.0F));
  return bits;
}

TEST(Codec, sends_what_the_slow_loop_says_and_keeps_the_rest) {
  std::mt19937 random(1);
  for (const Codec& codec : codecs())
    for (const std::size_t count : {1U, 2U, 3U, 15U, 16U, 64U, 1000U, 65536U}) {
      SCOPED_TRACE(fmt::format("{}: {}", name_of(codec), count));
      Floats residual(count);
      for (int step = 0; step < 4; ++step) {
        const Floats gradients = draw(random, count);
        const Sent sent = send(codec, gradients, residual);
        ASSERT_EQ(bits_of(sent.read), bits_of(model(codec, gradients, residual)));
        for (std::size_t i = 0; i < count; ++i) {
          const float sum = gradients[i] + residual[i];
          ASSERT_EQ(sent.left[i], sum - sent.read[i]) << i;
          // Nothing is lost but the last bit.
          const double whole = static_cast<double>(gradients[i]) + residual[i];
          const double kept = static_cast<double>(sent.read[i]) + sent.left[i];
          const float largest = std::max({std::fabs(sum), std::fabs(sent.read[i]), FLT_MIN});
          ASSERT_NEAR(kept, whole, std::nextafter(largest, INFINITY) - largest) << i;
        }
        residual = sent.left;
      }
    }
}

TEST(Codec, rounds_every_half_to_itself_and_saturates) {
  const Codec fp16{.kind = Compression::kFp16}, bf16{.kind = Compression::kBf16};
  for (const Codec& codec : {fp16, bf16})
    for (std::uint32_t half = 0; half < 0x10000U; ++half) {
      Bytes bytes(2), again(2);
      std::memcpy(bytes.data(), &half, 2);
      Floats value(1), left(1);
      decode(codec, bytes, value);
      encode(codec, value, Floats(1, -0.0F), again, left);
      if (std::isnan(value[0])) {
        decode(codec, again, left);
        ASSERT_TRUE(std::isnan(left[0])) << half;
      } else {
        ASSERT_EQ(again, bytes) << half;
        ASSERT_EQ(left[0], 0) << half;
      }
    }
  for (const auto& [codec, largest] : {std::pair(fp16, 65504.0F), {bf16, 0x1.FEp127F}})
    for (const float sign : {1.0F, -1.0F}) {
      const float beyond = sign * (codec == fp16 ? 1e6F : FLT_MAX);
      EXPECT_EQ(send(codec, {beyond}, {0}).read[0], sign * largest);
      EXPECT_EQ(send(codec, {beyond}, {0}).left[0], beyond - sign * largest);
    }
}

TEST(Codec, shows_what_is_not_finite_and_keeps_its_residual) {
  for (const Codec& codec : codecs())
    for (const float bad : {INFINITY, -INFINITY, kNan}) {
      if (codec.kind == Compression::kNone) continue;
      SCOPED_TRACE(fmt::format("{}: {}", name_of(codec), bad));
      Floats gradients(100, 0.25F);
      const Floats residual(100, 0.125F);
      gradients[41] = bad;
      const Sent sent = send(codec, gradients, residual);
      EXPECT_TRUE(std::ranges::any_of(sent.read, [](float f) { return !std::isfinite(f); }));
      EXPECT_TRUE(std::ranges::all_of(sent.left, [](float f) { return std::isfinite(f); }));
      EXPECT_EQ(sent.left[41], 0.125F);
      // More of them than are sent.
      const Sent all = send(codec, Floats(100, bad), residual);
      EXPECT_EQ(all.left, residual);
      EXPECT_TRUE(std::ranges::any_of(all.read, [](float f) { return !std::isfinite(f); }));
    }
}

TEST(Codec, takes_as_many_bytes_as_it_says) {
  const auto bytes = [](const Codec& codec) { return encoded_bytes(codec, 65536); };
  EXPECT_EQ(bytes({}), 262144);
  EXPECT_EQ(bytes({.kind = Compression::kFp16}), 131072);
  EXPECT_EQ(bytes({.kind = Compression::kBf16}), 131072);
  EXPECT_EQ(bytes({.kind = Compression::kTwoBit}), 16384);
  EXPECT_EQ(bytes({.kind = Compression::kOneBit}), 8196);
  EXPECT_EQ(bytes({.kind = Compression::kTopK, .ratio = 0.05}), 3277 * 8);
  for (const Codec& codec : codecs()) {
    const Sent none = send(codec, {}, {});
    EXPECT_LE(none.bytes.size(), 4U);
  }
}

std::string refusal(const Codec& codec, const Bytes& bytes, std::size_t floats) {
  Floats read(floats);
  try {
    decode(codec, bytes, read);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kPeerLost);
    return error.what();
  }
  return "";
}

TEST(Codec, refuses_bytes_that_it_does_not_write) {
  const std::string nobody = ": no process of this job sends that";
  for (const Codec& codec : codecs()) {
    Bytes bytes = send(codec, Floats(100, 1), Floats(100)).bytes;
    EXPECT_EQ(refusal(codec, bytes, 100), "");
    const std::string as = fmt::format(" gradients as {}", word(codec.kind));
    bytes.push_back({});
    EXPECT_EQ(refusal(codec, bytes, 100),
              fmt::format("[compress] {} bytes of 100{}{}", bytes.size(), as, nobody));
    EXPECT_NE(refusal(codec, {}, 100), "");
  }
  const Codec two_bit{.kind = Compression::kTwoBit}, one_bit{.kind = Compression::kOneBit};
  EXPECT_EQ(refusal(two_bit, {std::byte{0x10}}, 2),
            "[compress] 2bit gradients beyond the last one" + nobody);
  EXPECT_EQ(refusal(one_bit, {{}, {}, {}, {}, std::byte{0x08}}, 3),
            "[compress] 1bit gradients beyond the last one" + nobody);
  for (const float bad : {-1.0F, -0.0F, INFINITY}) {
    Bytes bytes(5);
    std::memcpy(bytes.data(), &bad, sizeof bad);
    EXPECT_EQ(refusal(one_bit, bytes, 8), "[compress] 1bit gradients of no magnitude" + nobody);
  }
  const Codec top_k{.kind = Compression::kTopK, .ratio = 0.2};
  for (const auto& [first, second] : {std::pair(3, 3), {4, 3}, {0, 10}, {-1, 3}}) {
    Bytes bytes = send(top_k, Floats(10, 1), Floats(10)).bytes;
    ASSERT_EQ(bytes.size(), 16U);
    std::memcpy(bytes.data(), &first, sizeof first);
    std::memcpy(bytes.data() + 8, &second, sizeof second);
    EXPECT_THAT(refusal(top_k, bytes, 10), ::testing::HasSubstr("of 10 after")) << first;
  }
}

// What any bytes that are taken mean, encode() can say again.
TEST(Codec, says_again_what_it_reads_of_any_bytes) {
  std::mt19937 random(5);
  for (const Codec& codec : codecs())
    for (int i = 0; i < 300; ++i) {
      const std::size_t count = 1 + random() % 70;
      Bytes bytes(static_cast<std::size_t>(encoded_bytes(codec, static_cast<std::int64_t>(count))));
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
      if (refusal(codec, bytes, count) != "") continue;
      Floats read(count);
      decode(codec, bytes, read);
      const Sent again = send(codec, read, Floats(count));
      for (std::size_t at = 0; at < count; ++at)
        if (std::isfinite(read[at]))
          ASSERT_EQ(again.read[at], read[at]) << name_of(codec) << " " << at;
        else
          ASSERT_FALSE(std::isfinite(again.read[at])) << name_of(codec) << " " << at;
    }
}

}  // namespace
}  // namespace coxswain::compress
