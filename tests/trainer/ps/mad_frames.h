#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/net/frame.h"
#include "trainer/ps/message.h"

// What no process of a job sends.
namespace coxswain::ps {

// Value. Bytes that end a connection.
struct MadFrame {
  std::string name;
  std::string bytes;
};

inline std::string bytes_of(const net::FrameHead& head, std::size_t payload = 0) {
  const net::HeadBytes bytes = net::encode(head);
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) +
         std::string(payload, '\1');
}

inline MadFrame mad_message(const std::string& name, const Message& message) {
  return {name, bytes_of({.kind = net::FrameKind::kMessage,
                          .label = label_of(message),
                          .length = static_cast<std::uint64_t>(message.bytes)},
                         static_cast<std::size_t>(std::min<std::int64_t>(message.bytes, 1 << 16)))};
}

// Of any process.
inline std::vector<MadFrame> mad_frames() {
  using net::FrameKind;
  std::vector<MadFrame> frames;
  for (const int kind : {0, 8, 255}) {
    std::string bytes = bytes_of({});
    bytes[0] = static_cast<char>(kind);
    frames.push_back({"a frame of kind " + std::to_string(kind), bytes});
  }
  for (const std::size_t at : {1, 2, 3}) {
    std::string bytes = bytes_of({});
    bytes[at] = 1;
    frames.push_back({"a head of another version, byte " + std::to_string(at), bytes});
  }
  for (const auto kind :
       {FrameKind::kHello, FrameKind::kWelcome, FrameKind::kRefusal, FrameKind::kReady})
    frames.push_back({"a greeting once more, " + std::to_string(static_cast<int>(kind)),
                      bytes_of({.kind = kind})});
  for (const auto kind : {FrameKind::kHello, FrameKind::kBeat, FrameKind::kGoodbye})
    frames.push_back({"a long frame of kind " + std::to_string(static_cast<int>(kind)),
                      bytes_of({.kind = kind, .length = net::kMaxGreeting + 1})});
  for (const std::uint64_t length : {net::kMaxMessage + 1, ~std::uint64_t{0}})
    frames.push_back({"a message of " + std::to_string(length) + " bytes",
                      bytes_of({.kind = FrameKind::kMessage, .length = length})});
  for (const std::uint32_t tag : {0U, static_cast<std::uint32_t>(Say::kStatus) + 1, 255U})
    frames.push_back({"a message of tag " + std::to_string(tag),
                      bytes_of({.kind = FrameKind::kMessage, .label = {.tag = tag}})});
  const auto push = static_cast<std::uint32_t>(Say::kPush);
  const std::uint64_t most = ~std::uint64_t{0};
  frames.push_back({"step -1", bytes_of({.kind = FrameKind::kMessage, .label = {push, most}})});
  frames.push_back(
      {"offset -1", bytes_of({.kind = FrameKind::kMessage, .label = {push, 0, most}})});
  return frames;
}

// Of worker 1 of two, whose parts of a block each are 1, and of server 0 or 1 of two; `block` is
// one of the server's that hears it.
inline std::vector<MadFrame> mad_pushes(const Message& block) {
  std::vector<MadFrame> frames;
  const auto add = [&](const char* name, auto change) {
    Message message = block;
    change(message);
    frames.push_back(mad_message(name, message));
  };
  add("no floats", [](Message& push) { push.bytes = 0; });
  add("half a block", [](Message& push) { push.bytes /= 2; });
  add("part of a float", [](Message& push) { push.bytes += 1; });
  add("more than a block", [](Message& push) { push.bytes += 4; });
  add("2 GiB", [](Message& push) { push.bytes = net::kMaxMessage; });
  add("beside a block", [](Message& push) { push.offset += 1; });
  add("another server's block", [](Message& push) { push.offset += push.bytes / 4; });
  add("beyond the end", [](Message& push) { push.offset = 1 << 30; });
  add("another's part", [](Message& push) { push.part = 0; });
  add("a part that there is not", [](Message& push) { push.part = 2; });
  add("a step that has not come", [](Message& push) { push.step += 1'000'000'000; });
  return frames;
}

// All words, without bytes and with some, but for those that may be said.
inline std::vector<MadFrame> mad_words(const std::vector<Message>& may_be_said) {
  std::vector<MadFrame> frames;
  for (int i = static_cast<int>(Say::kBeginning); i <= static_cast<int>(Say::kStatus); ++i)
    for (const std::int64_t bytes : {0, 12, 100}) {
      const Message message{.what = static_cast<Say>(i), .bytes = bytes};
      if (std::ranges::find(may_be_said, message) != may_be_said.end()) continue;
      frames.push_back(mad_message(
          "word " + std::to_string(i) + ", " + std::to_string(bytes) + " bytes", message));
    }
  return frames;
}

}  // namespace coxswain::ps
