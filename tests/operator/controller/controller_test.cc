#include "operator/controller/controller.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "trainer/contract/error.h"

namespace coxswain::controller {

namespace {

using std::chrono::milliseconds;

bool holds(const Metrics& metrics, const std::string& line) {
  return ("\n" + metrics.text()).find("\n" + line + "\n") != std::string::npos;
}

// Runs a controller until `reconcile` shuts the queue down.
struct Trial {
  WorkQueue queue;
  Metrics metrics;
  std::mutex mutex;
  std::vector<std::string> failures;  // guarded by mutex while workers run

  void run(Reconcile reconcile, int workers = 1) {
    Controller controller(queue, std::move(reconcile), metrics, workers,
                          [this](const std::string& key, const std::string& what) {
                            const std::lock_guard lock(mutex);
                            failures.push_back(key + ": " + what);
                          });
    controller.run({});
  }
};

TEST(Controller, reconciles_each_key_once) {
  Trial trial;
  trial.queue.add("a");
  trial.queue.add("b");
  std::vector<std::string> keys;
  trial.run([&](const std::string& key) -> std::optional<milliseconds> {
    keys.push_back(key);
    if (keys.size() == 2) trial.queue.shut_down();
    return std::nullopt;
  });
  EXPECT_EQ(keys, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(trial.failures.empty());
  EXPECT_TRUE(holds(trial.metrics, R"(coxswain_reconcile_total{result="success"} 2)"));
  EXPECT_TRUE(holds(trial.metrics, "coxswain_reconcile_seconds_count 2"));
  EXPECT_TRUE(holds(trial.metrics, "coxswain_reconcile_cpu_seconds_count 2"));
  EXPECT_TRUE(holds(trial.metrics, "coxswain_queue_wait_seconds_count 2"));
  EXPECT_TRUE(holds(trial.metrics, "coxswain_queue_depth 0"));
}

TEST(Controller, comes_again_when_the_pass_says_so) {
  Trial trial;
  trial.queue.add("a");
  std::vector<std::chrono::steady_clock::time_point> passes;
  trial.run([&](const std::string&) -> std::optional<milliseconds> {
    passes.push_back(std::chrono::steady_clock::now());
    if (passes.size() == 1) return milliseconds(0);
    if (passes.size() == 2) return milliseconds(15);
    trial.queue.shut_down();
    return std::nullopt;
  });
  ASSERT_EQ(passes.size(), 3u);
  EXPECT_GE(passes[2] - passes[1], milliseconds(15));
}

TEST(Controller, a_failure_is_told_and_tried_again) {
  Trial trial;
  trial.queue.add("ns/a");
  int passes = 0;
  trial.run([&](const std::string&) -> std::optional<milliseconds> {
    ++passes;
    if (passes == 1) throw Error(ExitCode::kPeersMissing, "[cluster] status: 500");
    if (passes == 2) throw std::runtime_error("anything");
    trial.queue.shut_down();
    return std::nullopt;
  });
  EXPECT_EQ(passes, 3);
  EXPECT_EQ(trial.failures,
            (std::vector<std::string>{"ns/a: [cluster] status: 500", "ns/a: anything"}));
  EXPECT_TRUE(holds(trial.metrics, R"(coxswain_reconcile_total{result="error"} 2)"));
}

TEST(Controller, success_forgets_failures) {
  Trial trial;
  trial.queue.add("a");
  int passes = 0;
  std::chrono::steady_clock::time_point failed;
  trial.run([&](const std::string&) -> std::optional<milliseconds> {
    ++passes;
    if (passes <= 6) throw std::runtime_error("x");  // the seventh in a row would wait for 288 ms
    if (passes == 7) return milliseconds(0);
    if (passes == 8) {
      failed = std::chrono::steady_clock::now();
      throw std::runtime_error("x");
    }
    trial.queue.shut_down();
    return std::nullopt;
  });
  EXPECT_EQ(passes, 9);
  EXPECT_LT(std::chrono::steady_clock::now() - failed, milliseconds(288));
}

TEST(Controller, a_key_that_fails_harms_no_other) {
  Trial trial;
  for (int i = 0; i < 50; ++i) trial.queue.add(std::to_string(i));
  std::atomic<int> good = 0;
  trial.run(
      [&](const std::string& key) -> std::optional<milliseconds> {
        if (key == "7") throw std::runtime_error("x");
        if (++good == 49) trial.queue.shut_down();
        return std::nullopt;
      },
      4);
  EXPECT_EQ(good, 49);
}

TEST(Controller, stops_between_passes_not_within_one) {
  WorkQueue queue;
  Metrics metrics;
  queue.add("a");
  queue.add("b");
  std::stop_source stop;
  std::vector<std::string> ended;
  Controller controller(
      queue,
      [&](const std::string& key) -> std::optional<milliseconds> {
        stop.request_stop();
        ended.push_back(key);
        return std::nullopt;
      },
      metrics, 1, [](const std::string&, const std::string&) {});
  controller.run(stop.get_token());
  EXPECT_EQ(ended, (std::vector<std::string>{"a"}));
}

TEST(Controller, tells_processor_time_from_waiting) {
  Trial trial;
  trial.queue.add("a");
  trial.run([&](const std::string&) -> std::optional<milliseconds> {
    std::this_thread::sleep_for(milliseconds(30));
    trial.queue.shut_down();
    return std::nullopt;
  });
  EXPECT_TRUE(holds(trial.metrics, R"(coxswain_reconcile_seconds_bucket{le="0.025"} 0)"));
  EXPECT_TRUE(holds(trial.metrics, R"(coxswain_reconcile_cpu_seconds_bucket{le="0.025"} 1)"));
}

}  // namespace

}  // namespace coxswain::controller
