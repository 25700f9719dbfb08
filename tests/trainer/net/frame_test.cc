#include "trainer/net/frame.h"

#include <gtest/gtest.h>

#include "trainer/contract/error.h"

namespace coxswain::net {
namespace {

TEST(Frame, comes_back_as_it_was) {
  for (const FrameHead& head :
       {FrameHead{FrameKind::kHello, {}, 200},
        FrameHead{FrameKind::kMessage, {0xfedcba98, ~0ULL, 1ULL << 63}, kMaxMessage},
        FrameHead{FrameKind::kMessage, {7}, 0}, FrameHead{FrameKind::kGoodbye}})
    EXPECT_EQ(decode(encode(head)), head);
}

TEST(Frame, has_bytes_that_never_change) {
  const HeadBytes bytes = encode({FrameKind::kMessage, {0x01020304, 0x0708, 0x090a0b}, 0x0506});
  const unsigned char expected[] = {6, 0, 0, 0, 4, 3, 2, 1, 6,   5,  0, 0, 0, 0, 0, 0,
                                    8, 7, 0, 0, 0, 0, 0, 0, 0xb, 0xa, 9, 0, 0, 0, 0, 0};
  for (std::size_t i = 0; i < kHeadBytes; ++i)
    EXPECT_EQ(std::to_integer<unsigned char>(bytes[i]), expected[i]) << i;
}

void expect_refused(HeadBytes bytes, const char* why) {
  try {
    decode(bytes);
    FAIL() << why;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kPeerLost);
    EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
  }
}

TEST(Frame, of_another_kind_or_length_is_refused) {
  for (const int kind : {0, 8, 255}) {
    HeadBytes bytes = encode({});
    bytes[0] = static_cast<std::byte>(kind);
    expect_refused(bytes, "a frame of kind");
  }
  for (const std::size_t at : {1, 2, 3}) {
    HeadBytes bytes = encode({});
    bytes[at] = std::byte{1};
    expect_refused(bytes, "not of this version");
  }
  expect_refused(encode({FrameKind::kHello, {}, kMaxGreeting + 1}), "with 4097 bytes");
  expect_refused(encode({FrameKind::kMessage, {}, kMaxMessage + 1}), "with 2147483649 bytes");
  expect_refused(encode({FrameKind::kMessage, {}, ~std::uint64_t{0}}), "bytes");
  for (const auto kind : {FrameKind::kReady, FrameKind::kBeat, FrameKind::kGoodbye})
    expect_refused(encode({kind, {}, 1}), "with 1 bytes");
}

}  // namespace
}  // namespace coxswain::net
