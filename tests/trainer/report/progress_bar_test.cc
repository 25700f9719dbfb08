#include "trainer/report/progress_bar.h"

#include <gtest/gtest.h>
#include <sys/ioctl.h>

#include <limits>

#include "tests/support/test_flags.h"
#include "tests/trainer/report/pipe.h"
#include "tests/trainer/report/samples.h"

namespace coxswain::report {

namespace {

using namespace std::chrono_literals;

// A clock that stands still until it is told.
struct Clock {
  std::chrono::steady_clock::time_point time;
  ProgressBarOptions options() {
    ProgressBarOptions options;
    options.now = [this] { return time; };
    return options;
  }
};

// A terminal hands text on in its own time: waits for `size` bytes, 5 s at most for each part.
std::string read_terminal(int controller, std::size_t size) {
  std::string text;
  char buffer[4096];
  pollfd readable{.fd = controller, .events = POLLIN, .revents = 0};
  while (text.size() < size && poll(&readable, 1, 5000) == 1) {
    const ssize_t length = read(controller, buffer, sizeof(buffer));
    if (length <= 0) break;
    text.append(buffer, static_cast<std::size_t>(length));
  }
  return text;
}

void tell_a_run(train::Observer& observer, Clock& clock) {
  observer.started(sample_run());
  for (int i = 0; i < 30; ++i) {
    clock.time += 500ms;
    observer.stepped(sample_step(1600 + i));
  }
  observer.saved(sample_checkpoint());
  train::CheckpointReport failed = sample_checkpoint();
  failed.error = "no space left on device";
  observer.saved(failed);
  observer.warned("rank 1 is late");
  observer.finished_epoch(sample_epoch());
  clock.time += 5s;
  observer.stepped(sample_step(2000));
  observer.finished(sample_summary());
}

}  // namespace

TEST(Render, the_length_of_a_run_without_epochs_is_its_steps) {
  train::RunInfo info = sample_run();
  info.epochs = 0;
  info.total_steps = 500;
  EXPECT_NE(render_banner(info).find("learning rate 0.05, 500 steps, of which an epoch has 469\n"),
            std::string::npos);
}

TEST(Render, bar_fits_every_width) {
  std::string text;
  for (const int width : {20, 60, 80, 90, 100, 120, 200}) {
    const std::string line = render_bar(sample_step(), sample_run(), width);
    EXPECT_LT(line.size(), static_cast<std::size_t>(width));
    text += line + "\n";
  }
  test::expect_golden("report/bar_widths.txt", text);
  EXPECT_EQ(render_bar(sample_step(), sample_run(), 0), "");
}

TEST(Render, bar_fills_with_the_steps) {
  std::string text;
  for (const std::int64_t step : {0, 1, 400, 2345, 4689, 4690, 5000}) {
    text += render_bar(sample_step(step), sample_run(), 120) + "\n";
  }
  test::expect_golden("report/bar_steps.txt", text);
}

TEST(Render, lines_of_a_run) {
  train::RunInfo resumed = sample_run();
  resumed.world_size = 1;
  resumed.threads = 4;
  resumed.notes = {"resumed step-00000400.g1: continues bit for bit"};
  train::EpochReport slow = sample_epoch();
  slow.evaluated = false;
  slow.input_bound = 0.234;
  train::StepReport odd = sample_step();
  odd.loss = std::numeric_limits<double>::quiet_NaN();
  odd.samples_per_second = 13.77;
  odd.seconds_left = 3 * 3600 + 125;
  train::RunInfo endless;
  endless.model = "mlp";
  train::Summary unknown = sample_summary();
  unknown.scaling_efficiency.reset();
  train::Summary failed;
  failed.result = "Failed";
  failed.scaling_efficiency = 1;
  const std::string text =
      render_banner(sample_run()) + "\n" + render_banner(resumed) + "\n" +
      render_step_line(sample_step(), sample_run()) + "\n" + render_step_line(odd, sample_run()) +
      "\n" + render_step_line(sample_step(), endless) + "\n" +
      render_bar(sample_step(), endless, 120) + "\n" +
      render_epoch_line(sample_epoch(), sample_run()) + "\n" +
      render_epoch_line(slow, sample_run()) + "\n\n" +
      render_summary(sample_summary(), sample_run()) + "\n" +
      render_summary(unknown, sample_run()) + "\n" + render_summary(failed, resumed);
  test::expect_golden("report/lines.txt", text);
}

TEST(Render, tells_how_stale_the_steps_of_ranks_on_their_own_are) {
  train::StepReport step = sample_step();
  step.pushes_per_second = 119;
  step.staleness = 1.96;
  const std::string line = render_step_line(step, sample_run());
  EXPECT_TRUE(line.ends_with(" left, 119 pushes/s, staleness 2.0")) << line;
  train::EpochReport epoch = sample_epoch();
  epoch.staleness = 1.96;
  epoch.most_staleness = 7;
  const std::string last = render_epoch_line(epoch, sample_run());
  EXPECT_TRUE(last.ends_with("; staleness 2.0, at most 7")) << last;
}

TEST(Render, tells_top5_and_one_rank_efficiency_where_they_are_asked_for) {
  train::RunInfo info = sample_run();
  info.tells_top5 = true;
  info.one_rank_rate = 7900;
  train::StepReport step = sample_step();
  step.top5 = 0.9999;
  EXPECT_NE(render_step_line(step, info).find("accuracy 99.12 %, top-5 99.99 %, lr 0.045, "),
            std::string::npos);
  train::EpochReport epoch = sample_epoch();
  epoch.training_top5 = 0.9998;
  const std::string line = render_epoch_line(epoch, info);
  EXPECT_NE(line.find("accuracy 99.13 %, top-5 99.98 %; test loss"), std::string::npos) << line;
  EXPECT_NE(line.find("accuracy 99.21 %, top-5 99.99 %; lr 0.045; "), std::string::npos) << line;
  train::Summary summary = sample_summary();
  summary.top5 = 0.9999;
  summary.one_rank_efficiency = 0.962;
  const std::string last = render_summary(summary, info);
  EXPECT_NE(last.find("one-rank efficiency 96 % (of 2 x 7,900), 0:49 in all"), std::string::npos)
      << last;
  EXPECT_NE(last.find("accuracy 99.34 %, top-5 99.99 %, loss"), std::string::npos) << last;
}

TEST(ProgressBar, prints_a_line_every_few_seconds_to_a_file) {
  const Pipe pipe;
  TextSink sink(pipe.writer());
  Clock clock;
  ProgressBar bar(sink, clock.options());
  tell_a_run(bar, clock);
  test::expect_golden("report/progress_plain.txt", pipe.read_so_far());
}

TEST(ProgressBar, redraws_one_line_on_a_terminal) {
  const int controller = posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(controller, 0);
  ASSERT_EQ(grantpt(controller), 0);
  ASSERT_EQ(unlockpt(controller), 0);
  const int terminal = open(ptsname(controller), O_RDWR | O_NOCTTY);
  ASSERT_GE(terminal, 0);
  const winsize size{.ws_row = 25, .ws_col = 100, .ws_xpixel = 0, .ws_ypixel = 0};
  ASSERT_EQ(ioctl(terminal, TIOCSWINSZ, &size), 0);

  TextSink sink(terminal);
  EXPECT_TRUE(sink.is_terminal());
  EXPECT_EQ(sink.width(), 100);
  Clock clock;
  ProgressBar bar(sink, clock.options());
  bar.started(sample_run());
  clock.time += 1s;
  bar.stepped(sample_step(1000));
  clock.time += 10ms;
  bar.stepped(sample_step(1001));  // too soon to draw again
  clock.time += 100ms;
  bar.stepped(sample_step(1002));
  bar.finished_epoch(sample_epoch());
  clock.time += 1s;
  bar.stepped(sample_step(1003));
  bar.finished(sample_summary());

  const std::string erase = "\r\x1b[K";
  const auto drawn = [&](std::int64_t step) {
    return erase + render_bar(sample_step(step), sample_run(), 100);
  };
  std::string expected = render_banner(sample_run()) + drawn(1000) + drawn(1002) + erase +
                         render_epoch_line(sample_epoch(), sample_run()) + "\n" + drawn(1003) +
                         erase + render_summary(sample_summary(), sample_run());
  // The terminal makes \r\n of \n.
  for (std::size_t at = 0; (at = expected.find('\n', at)) != std::string::npos; at += 2) {
    expected.insert(at, "\r");
  }
  EXPECT_EQ(read_terminal(controller, expected.size()), expected);
  close(terminal);
  close(controller);
}

}  // namespace coxswain::report
