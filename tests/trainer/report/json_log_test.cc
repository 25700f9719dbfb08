#include "trainer/report/json_log.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/test_flags.h"
#include "tests/trainer/report/pipe.h"
#include "tests/trainer/report/samples.h"

namespace coxswain::report {

using namespace std::chrono_literals;

TEST(JsonLog, prints_an_object_a_line) {
  const Pipe pipe;
  TextSink sink(pipe.writer());
  std::chrono::steady_clock::time_point time;
  JsonLogOptions options;
  options.now = [&time] { return time; };
  options.restarts = 1;
  JsonLog log(sink, options);

  log.started(sample_run());
  for (int i = 0; i < 5; ++i) {
    log.stepped(sample_step(1600 + i));
    time += 400ms;
  }
  log.finished_epoch(sample_epoch());
  log.saved(sample_checkpoint());
  train::CheckpointReport failed = sample_checkpoint();
  failed.error = "no space left on device";
  log.saved(failed);
  log.warned("a \"quoted\" word \xff");
  log.finished(sample_summary());

  const std::string text = pipe.read_so_far();
  test::expect_golden("report/json_log.txt", text);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_TRUE(nlohmann::json::parse(line, nullptr, false).is_object()) << line;
  }
}

TEST(JsonLog, has_null_for_what_is_not_finite) {
  const Pipe pipe;
  TextSink sink(pipe.writer());
  JsonLog log(sink, {});
  train::StepReport report = sample_step();
  report.loss = std::numeric_limits<double>::quiet_NaN();
  log.stepped(report);
  const auto event = nlohmann::json::parse(pipe.read_so_far());
  EXPECT_TRUE(event["loss"].is_null());
  EXPECT_EQ(event["step"], 1606);
}

TEST(JsonLog, tells_how_stale_the_steps_of_ranks_on_their_own_are) {
  const Pipe pipe;
  TextSink sink(pipe.writer());
  JsonLog log(sink, {});
  train::StepReport step = sample_step();
  step.pushes_per_second = 119;
  step.staleness = 2.5;
  log.stepped(step);
  const auto of_step = nlohmann::json::parse(pipe.read_so_far());
  EXPECT_EQ(of_step["pushesPerSecond"], 119);
  EXPECT_EQ(of_step["staleness"], 2.5);
  train::EpochReport epoch = sample_epoch();
  epoch.staleness = 2.5;
  epoch.most_staleness = 7;
  log.finished_epoch(epoch);
  const auto of_epoch = nlohmann::json::parse(pipe.read_so_far());
  EXPECT_EQ(of_epoch["staleness"], 2.5);
  EXPECT_EQ(of_epoch["mostStaleness"], 7);
}

TEST(JsonLog, ends_with_the_line_of_the_contract) {
  const Pipe pipe;
  TextSink sink(pipe.writer());
  JsonLog log(sink, {});
  log.finished(sample_summary());
  EXPECT_EQ(pipe.read_so_far(),
            R"({"event":"finished","result":"Succeeded","accuracy":0.9934,"loss":0.0216,)"
            R"("epochs":10,"steps":4690,"samplesPerSecond":15200.0,"restarts":0,)"
            R"("checkpoint":"checkpoints/step-00004690.g1","seconds":49.4})"
            "\n");
}

}  // namespace coxswain::report
