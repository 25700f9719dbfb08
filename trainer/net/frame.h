#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

// PURE: what two processes of a job send each other: frames, of a head and what it announces.
namespace coxswain::net {

enum class FrameKind : std::uint8_t {
  kHello = 1,  // who calls; the first frame of a connection
  kWelcome,    // who answers: the caller may stay
  kRefusal,    // or may not; the last frame
  kReady,      // of the caller, which takes the welcome: from now on both send what they like
  kBeat,       // the sender lives
  kMessage,
  kGoodbye,  // nothing comes after it
};

// Value. What a message is, in the words of those who send it to each other.
struct Label {
  std::uint32_t tag = 0;
  std::uint64_t sequence = 0;
  std::uint64_t offset = 0;
  bool operator==(const Label&) const = default;
};

// Value.
struct FrameHead {
  FrameKind kind = FrameKind::kBeat;
  Label label = {};          // of a message
  std::uint64_t length = 0;  // bytes that follow
  bool operator==(const FrameHead&) const = default;
};

// Kind, three zero bytes, tag, length, sequence, offset; little-endian.
inline constexpr std::size_t kHeadBytes = 32;
using HeadBytes = std::array<std::byte, kHeadBytes>;

inline constexpr std::uint64_t kMaxGreeting = 4096;  // hello, welcome, refusal
inline constexpr std::uint64_t kMaxMessage = std::uint64_t{1} << 31;

HeadBytes encode(const FrameHead& head);

// Throws Error(71) for what no process of a job sends: another kind, a zero byte that is none, more
// bytes than the kind may have.
FrameHead decode(const HeadBytes& bytes);

}  // namespace coxswain::net
