#include "trainer/report/progress_endpoint.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "tests/support/test_flags.h"
#include "tests/trainer/report/samples.h"
#include "trainer/report/observers.h"
#include "trainer/report/server_endpoint.h"

namespace coxswain::report {

namespace {

ProgressEndpointOptions local_options() {
  ProgressEndpointOptions options;
  options.address = "127.0.0.1";
  options.port = 0;
  options.now = [] { return std::chrono::system_clock::from_time_t(1714564800); };
  return options;
}

std::string get(const ProgressEndpoint& endpoint, const std::string& path) {
  return contract::http_get("127.0.0.1", endpoint.port(), path, std::chrono::seconds(5), 65536)
      .value_or("nothing");
}

}  // namespace

TEST(ProgressEndpoint, has_nothing_to_say_before_the_start) {
  const ProgressEndpoint endpoint(local_options());
  EXPECT_EQ(get(endpoint, "/healthz"), "ok\n");
  EXPECT_EQ(get(endpoint, "/progress"), "{}");
  EXPECT_EQ(get(endpoint, "/metrics"), "");
  EXPECT_EQ(get(endpoint, "/other"), "nothing");
}

TEST(ServerEndpoint, serves_the_latest_figures) {
  ServerEndpoint endpoint("127.0.0.1", 0);
  endpoint.set({.step = 7, .workers = 2, .received_bytes = 5'000'000'000, .sent_bytes = 3});
  const auto ask = [&](const char* path) {
    return contract::http_get("127.0.0.1", endpoint.port(), path, std::chrono::seconds(5), 65536)
        .value_or("nothing");
  };
  EXPECT_EQ(ask("/healthz"), "ok\n");
  EXPECT_EQ(ask("/progress"), "nothing");
  const std::string metrics = ask("/metrics");
  EXPECT_NE(metrics.find("\ncoxswain_server_step 7\n"), std::string::npos) << metrics;
  EXPECT_NE(metrics.find("\ncoxswain_server_workers 2\n"), std::string::npos) << metrics;
  EXPECT_NE(metrics.find("# TYPE coxswain_server_received_bytes_total counter\n"
                         "coxswain_server_received_bytes_total 5000000000\n"),
            std::string::npos)
      << metrics;
  EXPECT_NE(metrics.find("\ncoxswain_server_sent_bytes_total 3\n"), std::string::npos) << metrics;
}

TEST(ProgressEndpoint, serves_the_latest_progress) {
  ProgressEndpoint endpoint(local_options());
  train::RunInfo info = sample_run();
  info.first_step = 400;
  endpoint.started(info);
  EXPECT_EQ(endpoint.latest().progress->step, 400);
  endpoint.stepped(sample_step());
  endpoint.saved(sample_checkpoint());
  EXPECT_EQ(get(endpoint, "/progress"),
            R"({"progress":{"epoch":4,"epochs":10,"step":1606,"steps":4690,"loss":0.03123,)"
            R"("accuracy":0.9912,"lr":0.045,"samplesPerSecond":15234.4,"secondsLeft":32.2,)"
            R"("worldSize":2,"scalingEfficiency":0.9375,"time":"2024-05-01T12:00:00Z"},)"
            R"("checkpoint":{"step":1600,"time":"2024-05-01T12:00:00Z","path":"step-00001600.g1",)"
            R"("bytes":3448640}})");
  contract::ProgressDocument told = endpoint.latest();
  told.progress->accuracy = 0.9912;  // in as many digits as people read
  EXPECT_EQ(contract::parse_progress(get(endpoint, "/progress")), told);
  test::expect_golden("report/metrics.txt", get(endpoint, "/metrics"));
}

TEST(ProgressEndpoint, tells_from_the_start_what_it_resumes_from) {
  const test::TemporaryDirectory directory;
  const auto checkpoint = directory.path() / "step-00001407.g1";
  std::filesystem::create_directory(checkpoint);
  std::ofstream(checkpoint / "model.safetensors") << std::string(100, 'x');
  std::ofstream(checkpoint / "MANIFEST.json") << std::string(10, 'x');
  ProgressEndpoint endpoint(local_options());
  train::RunInfo info = sample_run();
  info.first_step = 1407;
  info.epoch = 4;
  info.resumed_from = checkpoint.string();
  endpoint.started(info);
  const contract::ProgressDocument told = endpoint.latest();
  EXPECT_EQ(told.progress->epoch, 4);
  ASSERT_TRUE(told.checkpoint);
  EXPECT_EQ(told.checkpoint->path, "step-00001407.g1");
  EXPECT_EQ(told.checkpoint->step, 1407);
  EXPECT_EQ(told.checkpoint->bytes, 110);
  EXPECT_GE(told.checkpoint->time, "2025-01-01T00:00:00Z") << "that of the directory";
}

TEST(ProgressEndpoint, keeps_the_accuracy_of_the_test_images_once_known) {
  ProgressEndpoint endpoint(local_options());
  endpoint.started(sample_run());
  train::EpochReport not_evaluated = sample_epoch();
  not_evaluated.evaluated = false;
  endpoint.finished_epoch(not_evaluated);
  endpoint.stepped(sample_step());
  EXPECT_EQ(endpoint.latest().progress->accuracy, 0.99117);
  EXPECT_FALSE(endpoint.latest().progress->test_accuracy);
  endpoint.finished_epoch(sample_epoch());
  endpoint.stepped(sample_step());
  EXPECT_EQ(endpoint.latest().progress->accuracy, 0.9921);
  EXPECT_EQ(endpoint.latest().progress->test_accuracy, 0.9921);
  endpoint.finished(sample_summary());
  EXPECT_EQ(endpoint.latest().progress->accuracy, 0.9934);
  EXPECT_EQ(endpoint.latest().progress->loss, 0.0216);
  EXPECT_EQ(endpoint.latest().progress->test_loss, 0.0216);
  EXPECT_EQ(endpoint.latest().progress->step, 4690);
  EXPECT_EQ(endpoint.latest().progress->seconds_left, 0);
}

TEST(ProgressEndpoint, has_top5_and_the_efficiency_of_one_rank_where_they_are_asked_for) {
  ProgressEndpoint endpoint(local_options());
  train::RunInfo info = sample_run();
  info.tells_top5 = true;
  endpoint.started(info);
  train::StepReport step = sample_step();
  step.top5 = 0.9876;
  step.one_rank_efficiency = 0.875;
  endpoint.stepped(step);
  EXPECT_EQ(endpoint.latest().progress->top5, 0.9876);
  endpoint.finished_epoch(sample_epoch());
  endpoint.stepped(step);
  EXPECT_EQ(endpoint.latest().progress->top5, 0.9999);
  EXPECT_EQ(endpoint.latest().progress->epoch_seconds, 3.94);
  const std::string metrics = get(endpoint, "/metrics");
  for (const char* line :
       {"coxswain_training_top5_accuracy 0.9999\n", "coxswain_training_one_rank_efficiency 0.875\n",
        "coxswain_training_epoch_seconds 3.94\n", "coxswain_training_seconds 18.6\n"})
    EXPECT_NE(metrics.find(line), std::string::npos) << metrics;
  train::Summary summary = sample_summary();
  endpoint.finished(summary);
  EXPECT_EQ(endpoint.latest().progress->seconds, 49.4);
}

TEST(ProgressEndpoint, has_the_scaling_efficiency_that_was_told_last) {
  ProgressEndpoint endpoint(local_options());
  endpoint.started(sample_run());
  EXPECT_EQ(endpoint.latest().progress->scaling_efficiency, std::nullopt);
  endpoint.stepped(sample_step());
  EXPECT_EQ(endpoint.latest().progress->scaling_efficiency, 0.9375);
  endpoint.finished_epoch(sample_epoch());
  EXPECT_EQ(endpoint.latest().progress->scaling_efficiency, 0.953125);
  train::StepReport first_of_an_epoch = sample_step();
  first_of_an_epoch.scaling_efficiency.reset();
  endpoint.stepped(first_of_an_epoch);
  EXPECT_EQ(endpoint.latest().progress->scaling_efficiency, 0.953125);
  endpoint.finished(sample_summary());
  EXPECT_EQ(endpoint.latest().progress->scaling_efficiency, 0.964);
}

TEST(ProgressEndpoint, measures_the_steps_of_ranks_on_their_own) {
  ProgressEndpoint endpoint(local_options());
  endpoint.started(sample_run());
  EXPECT_EQ(to_metrics(endpoint.latest()).find("staleness"), std::string::npos);
  train::StepReport step = sample_step();
  step.pushes_per_second = 119;
  step.staleness = 2.5;
  endpoint.stepped(step);
  const std::string metrics = to_metrics(endpoint.latest());
  EXPECT_NE(metrics.find("coxswain_training_pushes_per_second 119\n"), std::string::npos);
  EXPECT_NE(metrics.find("coxswain_training_staleness 2.5\n"), std::string::npos);
}

TEST(ProgressEndpoint, keeps_the_last_good_checkpoint) {
  ProgressEndpoint endpoint(local_options());
  endpoint.saved(sample_checkpoint());
  train::CheckpointReport failed = sample_checkpoint();
  failed.step = 1700;
  failed.error = "no space left on device";
  endpoint.saved(failed);
  EXPECT_EQ(endpoint.latest().checkpoint->step, 1600);
}

TEST(ProgressEndpoint, leaves_metrics_out_that_are_not_finite) {
  contract::ProgressDocument document;
  document.progress.emplace();
  document.progress->loss = std::numeric_limits<double>::quiet_NaN();
  const std::string text = to_metrics(document);
  EXPECT_EQ(text.find("training_loss"), std::string::npos);
  EXPECT_NE(text.find("coxswain_training_world_size 1\n"), std::string::npos);
}

TEST(Observers, tell_each_in_order) {
  struct Recorder : train::Observer {
    Recorder(std::string& log, char name) : log_(log), name_(name) {}
    void started(const train::RunInfo&) override { log_ += {name_, '1', ' '}; }
    void stepped(const train::StepReport&) override { log_ += {name_, '2', ' '}; }
    void finished_epoch(const train::EpochReport&) override { log_ += {name_, '3', ' '}; }
    void saved(const train::CheckpointReport&) override { log_ += {name_, '4', ' '}; }
    void warned(const std::string&) override { log_ += {name_, '5', ' '}; }
    void finished(const train::Summary&) override { log_ += {name_, '6', ' '}; }
    std::string& log_;
    char name_;
  };
  std::string log;
  Recorder a(log, 'a');
  Recorder b(log, 'b');
  Observers both({a, b});
  both.started(sample_run());
  both.stepped(sample_step());
  both.finished_epoch(sample_epoch());
  both.saved(sample_checkpoint());
  both.warned("x");
  both.finished(sample_summary());
  EXPECT_EQ(log, "a1 b1 a2 b2 a3 b3 a4 b4 a5 b5 a6 b6 ");
}

}  // namespace coxswain::report
