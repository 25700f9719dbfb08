#include "trainer/launch/host_frames.h"

#include <gtest/gtest.h>

#include "trainer/contract/error.h"

namespace coxswain::launch {
namespace {

const Frame kSaid{FrameKind::kOutput, 3, std::string("epoch 1\n\0\xff", 10)};
const Frame kEmpty{FrameKind::kReady, 0, ""};

TEST(HostFrames, come_whole_however_they_are_cut) {
  const std::string bytes = std::string(kHostGreeting) + to_bytes(kSaid) + to_bytes(kEmpty);
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
    FrameReader reader(/*greeted=*/true);
    std::vector<Frame> frames;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      reader.add(std::string_view(bytes).substr(at, piece));
      while (auto frame = reader.next()) frames.push_back(*frame);
    }
    EXPECT_EQ(frames, (std::vector<Frame>{kSaid, kEmpty})) << piece;
  }
}

TEST(HostFrames, pass_over_what_a_login_shell_prints_first) {
  FrameReader reader(/*greeted=*/true);
  reader.add("Welcome to h2!\ncoxswain-host is here\n");
  EXPECT_EQ(reader.next(), std::nullopt);
  reader.add(std::string(kHostGreeting) + to_bytes(kEmpty));
  EXPECT_EQ(reader.next(), kEmpty);
}

TEST(HostFrames, of_no_kind_or_too_long_are_refused) {
  FrameReader silent(/*greeted=*/true);
  silent.add(std::string(70'000, 'x'));
  EXPECT_THROW(silent.next(), Error);
  FrameReader unknown(/*greeted=*/false);
  unknown.add("?\0\0\0\0\0\0\0\0");
  unknown.add(std::string(9, '\0'));
  EXPECT_THROW(unknown.next(), Error);
  FrameReader too_long(/*greeted=*/false);
  too_long.add(std::string("o\0\0\0\0\x7f\xff\xff\xff", 9));
  EXPECT_THROW(too_long.next(), Error);
}

TEST(HostOrder, is_read_as_it_was_written_and_nothing_else_is) {
  const HostOrder order{.environment = {{"COXSWAIN_JOB", "digits"}, {"X", "a\nb"}},
                        .command = {"coxswain-trainer", "train", "--config", "/a b"},
                        .config = "model: mlp\n",
                        .hostfile = "h1 slots=2\n",
                        .key = "00ff",
                        .wrote_on = "h1"};
  EXPECT_EQ(parse_host_order(to_json(order)), order);
  for (const char* text : {"", "[]", "{}", "7", R"({"environment":{"A":1}})",
                           R"({"environment":{},"command":"x","config":"","hostfile":"",)"
                           R"("key":"","wroteOn":""})"})
    EXPECT_EQ(parse_host_order(text), std::nullopt) << text;
}

}  // namespace
}  // namespace coxswain::launch
