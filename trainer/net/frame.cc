#include "trainer/net/frame.h"

#include <fmt/format.h>

#include "trainer/contract/error.h"

namespace coxswain::net {

namespace {

constexpr std::size_t kTagAt = 4;
constexpr std::size_t kLengthAt = 8;
constexpr std::size_t kSequenceAt = 16;
constexpr std::size_t kOffsetAt = 24;

template <class Number>
void put(HeadBytes& bytes, std::size_t at, Number number) {
  for (std::size_t i = 0; i < sizeof(number); ++i)
    bytes[at + i] = static_cast<std::byte>(number >> (8 * i) & 0xff);
}

template <class Number>
Number take(const HeadBytes& bytes, std::size_t at) {
  Number number = 0;
  for (std::size_t i = 0; i < sizeof(number); ++i)
    number |= std::to_integer<Number>(bytes[at + i]) << (8 * i);
  return number;
}

std::uint64_t most_bytes(FrameKind kind) {
  switch (kind) {
    case FrameKind::kHello:
    case FrameKind::kWelcome:
    case FrameKind::kRefusal:
      return kMaxGreeting;
    case FrameKind::kMessage:
      return kMaxMessage;
    case FrameKind::kReady:
    case FrameKind::kBeat:
    case FrameKind::kGoodbye:
      break;
  }
  return 0;
}

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ExitCode::kPeerLost, "[net] " + what + ": no process of this job sends that");
}

}  // namespace

HeadBytes encode(const FrameHead& head) {
  HeadBytes bytes{};
  bytes[0] = static_cast<std::byte>(head.kind);
  put(bytes, kTagAt, head.label.tag);
  put(bytes, kLengthAt, head.length);
  put(bytes, kSequenceAt, head.label.sequence);
  put(bytes, kOffsetAt, head.label.offset);
  return bytes;
}

FrameHead decode(const HeadBytes& bytes) {
  const auto kind = std::to_integer<int>(bytes[0]);
  if (kind < static_cast<int>(FrameKind::kHello) || kind > static_cast<int>(FrameKind::kGoodbye))
    refuse(fmt::format("a frame of kind {}", kind));
  for (std::size_t i = 1; i < kTagAt; ++i)
    if (bytes[i] != std::byte{0}) refuse("a frame whose head is not of this version");
  const FrameHead head{.kind = static_cast<FrameKind>(kind),
                       .label = {.tag = take<std::uint32_t>(bytes, kTagAt),
                                 .sequence = take<std::uint64_t>(bytes, kSequenceAt),
                                 .offset = take<std::uint64_t>(bytes, kOffsetAt)},
                       .length = take<std::uint64_t>(bytes, kLengthAt)};
  if (head.length > most_bytes(head.kind))
    refuse(fmt::format("a frame of kind {} with {} bytes", kind, head.length));
  return head;
}

}  // namespace coxswain::net
