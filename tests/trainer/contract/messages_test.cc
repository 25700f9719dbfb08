#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "trainer/contract/worker/finished_event.h"
#include "trainer/contract/worker/progress.h"
#include "trainer/contract/worker/termination_message.h"

namespace coxswain::contract {

namespace {

const Progress kProgress{.epoch = 3,
                         .epochs = 10,
                         .step = 1200,
                         .steps = 4690,
                         .loss = 0.031,
                         .accuracy = 0.9912,
                         .samples_per_second = 15200,
                         .seconds_left = 12.5,
                         .world_size = 2,
                         .scaling_efficiency = 0.97,
                         .time = "2024-05-01T12:00:00Z"};

const CheckpointProgress kCheckpoint{1000, "2024-05-01T11:59:00Z", "step-00001000.g1", 1724320};

TerminationMessage full_message() {
  return {.exit_code = 71,
          .rank = 1,
          .phase = "AllReduce",
          .reason = "PeerLost",
          .message = "rank 0 is silent for 10 s",
          .step = 1234,
          .progress = kProgress,
          .checkpoint = kCheckpoint};
}

}  // namespace

TEST(Progress, has_the_fields_of_the_status) {
  EXPECT_EQ(to_json(ProgressDocument{kProgress, kCheckpoint}),
            R"({"progress":{"epoch":3,"epochs":10,"step":1200,"steps":4690,"loss":0.031,)"
            R"("accuracy":0.9912,"samplesPerSecond":15200.0,"secondsLeft":12.5,"worldSize":2,)"
            R"("scalingEfficiency":0.97,"time":"2024-05-01T12:00:00Z"},"checkpoint":{"step":1000,)"
            R"("time":"2024-05-01T11:59:00Z","path":"step-00001000.g1","bytes":1724320}})");
}

TEST(Progress, comes_back_from_json) {
  for (const ProgressDocument& document :
       {ProgressDocument{}, ProgressDocument{kProgress, std::nullopt},
        ProgressDocument{std::nullopt, kCheckpoint}, ProgressDocument{kProgress, kCheckpoint},
        ProgressDocument{Progress{}, CheckpointProgress{}}}) {
    EXPECT_EQ(parse_progress(to_json(document)), document) << to_json(document);
  }
}

TEST(Progress, says_what_is_asked_for_beside_accuracy_and_speed) {
  Progress progress = kProgress;
  progress.lr = 0.05;
  progress.top5 = 0.9987;
  progress.one_rank_efficiency = 0.875;
  progress.epoch_seconds = 4.25;
  progress.seconds = 49.5;
  progress.test_accuracy = 0.9934;
  progress.test_loss = 0.0216;
  const std::string json = to_json(ProgressDocument{progress, std::nullopt});
  for (const char* part :
       {R"("top5":0.9987,"lr":0.05)", R"("oneRankEfficiency":0.875)",
        R"("epochSeconds":4.25,"seconds":49.5)", R"("testAccuracy":0.9934,"testLoss":0.0216)"})
    EXPECT_NE(json.find(part), std::string::npos) << json;
  EXPECT_EQ(parse_progress(json)->progress, progress);
}

TEST(Progress, says_how_stale_the_steps_of_ranks_on_their_own_are) {
  Progress progress = kProgress;
  progress.pushes_per_second = 119;
  progress.staleness = 2.5;
  const std::string json = to_json(ProgressDocument{progress, std::nullopt});
  EXPECT_NE(json.find(R"("pushesPerSecond":119.0,"staleness":2.5)"), std::string::npos) << json;
  EXPECT_EQ(parse_progress(json)->progress, progress);
}

TEST(Progress, leaves_out_what_is_not_finite) {
  Progress progress = kProgress;
  progress.loss = std::numeric_limits<double>::quiet_NaN();
  progress.seconds_left = std::numeric_limits<double>::infinity();
  const auto back = parse_progress(to_json(ProgressDocument{progress, std::nullopt}));
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->progress->loss, std::nullopt);
  EXPECT_EQ(back->progress->seconds_left, std::nullopt);
  EXPECT_EQ(back->progress->accuracy, 0.9912);
}

TEST(Progress, stays_below_the_limit_with_a_long_path) {
  CheckpointProgress checkpoint = kCheckpoint;
  checkpoint.path = std::string(100000, 'x');
  const std::string json = to_json(ProgressDocument{kProgress, checkpoint});
  EXPECT_LE(json.size(), kMaxProgressBytes);
  EXPECT_TRUE(parse_progress(json).has_value());
}

TEST(Progress, refuses_every_other_text) {
  for (const std::string text :
       {"", "{", "[]", "null", "7", "{\"progress\":7}", "{\"progress\":{\"step\":\"x\"}}",
        "{\"progress\":{\"step\":1.5}}", "{\"progress\":{\"step\":9223372036854775808}}",
        "{\"progress\":{\"worldSize\":4294967297}}", "{\"progress\":{\"loss\":\"0.1\"}}",
        "{\"progress\":{\"loss\":1e999}}", "{\"progress\":{\"loss\":null}}",
        "{\"progress\":{\"time\":3}}", "{\"checkpoint\":[]}", "{\"checkpoint\":{\"path\":1}}"}) {
    EXPECT_EQ(parse_progress(text), std::nullopt) << text;
  }
  const std::string valid = to_json(ProgressDocument{kProgress, kCheckpoint});
  EXPECT_EQ(parse_progress(valid + std::string(kMaxProgressBytes, ' ')), std::nullopt);
  EXPECT_EQ(parse_progress(std::string(kMaxProgressBytes, '[')), std::nullopt);
  for (std::size_t size = 0; size < valid.size(); ++size) {
    EXPECT_EQ(parse_progress(valid.substr(0, size)), std::nullopt) << size;
  }
}

TEST(TerminationMessage, comes_back_from_json) {
  EXPECT_EQ(parse_termination_message(to_json(full_message())), full_message());
  EXPECT_EQ(parse_termination_message(to_json(TerminationMessage{})), TerminationMessage{});
  EXPECT_EQ(to_json(TerminationMessage{}), "{\"exitCode\":0}");
}

TEST(TerminationMessage, shortens_the_message_first) {
  TerminationMessage message = full_message();
  for (const std::string& text : {std::string(100000, 'x'), std::string(100000, '\x01'),
                                  std::string(100000, '"'), std::string(100000, '\xff')}) {
    message.message = text;
    const std::string json = to_json(message);
    EXPECT_LE(json.size(), kMaxTerminationMessageBytes);
    EXPECT_GE(json.size(), kMaxTerminationMessageBytes * 3 / 4);
    const auto back = parse_termination_message(json);
    ASSERT_TRUE(back.has_value());
    EXPECT_TRUE(back->message.ends_with("..."));
    EXPECT_EQ(back->progress, kProgress);
    EXPECT_EQ(back->checkpoint, kCheckpoint);
    EXPECT_EQ(back->reason, "PeerLost");
  }
}

TEST(TerminationMessage, is_not_cut_within_a_character) {
  TerminationMessage message;
  for (int i = 0; i < 2000; ++i) message.message += "€";
  const auto back = parse_termination_message(to_json(message));
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->message.find("\xEF\xBF\xBD"), std::string::npos);
  EXPECT_TRUE(back->message.ends_with("€..."));
}

TEST(TerminationMessage, fits_even_when_all_is_too_long) {
  TerminationMessage message = full_message();
  message.phase = std::string(100000, '\x02');
  message.reason = std::string(100000, '\x02');
  message.progress->time = std::string(100000, 't');
  message.checkpoint->time = std::string(100000, 't');
  const std::string json = to_json(message);
  EXPECT_LE(json.size(), kMaxTerminationMessageBytes);
  const auto back = parse_termination_message(json);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->exit_code, 71);
}

TEST(TerminationMessage, refuses_every_other_text) {
  for (const std::string text :
       {"", "Segmentation fault", "[]", "{}", "{\"rank\":1}", "{\"exitCode\":\"1\"}",
        "{\"exitCode\":1.0}", "{\"exitCode\":99999999999}", "{\"exitCode\":1,\"rank\":\"0\"}",
        "{\"exitCode\":1,\"message\":7}", "{\"exitCode\":1,\"step\":{}}",
        "{\"exitCode\":1,\"progress\":[]}", "{\"exitCode\":1,\"checkpoint\":\"x\"}"}) {
    EXPECT_EQ(parse_termination_message(text), std::nullopt) << text;
  }
  EXPECT_EQ(parse_termination_message("{\"exitCode\":1}" + std::string(3000, ' ')), std::nullopt);
}

TEST(FinishedEvent, has_the_form_of_the_contract) {
  EXPECT_EQ(to_json(FinishedEvent{.result = "Succeeded",
                                  .accuracy = 0.9912,
                                  .loss = 0.031,
                                  .epochs = 10,
                                  .steps = 9380,
                                  .samples_per_second = 15200,
                                  .restarts = 0,
                                  .checkpoint = "checkpoints/step-00009380.g1"}),
            R"({"event":"finished","result":"Succeeded","accuracy":0.9912,"loss":0.031,)"
            R"("epochs":10,"steps":9380,"samplesPerSecond":15200.0,"restarts":0,)"
            R"("checkpoint":"checkpoints/step-00009380.g1"})");
  FinishedEvent failed;
  failed.result = "Failed";
  failed.loss = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(to_json(failed),
            R"({"event":"finished","result":"Failed","accuracy":null,"loss":null,"epochs":null,)"
            R"("steps":null,"samplesPerSecond":null,"restarts":0,"checkpoint":null})");
}

}  // namespace coxswain::contract
