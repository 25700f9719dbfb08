#include "trainer/report/text_sink.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/trainer/report/pipe.h"

namespace coxswain::report {

using namespace std::chrono_literals;

TEST(TextSink, writes_what_it_is_given) {
  const Pipe pipe;
  TextSink sink(pipe.writer());
  EXPECT_FALSE(sink.is_terminal());
  EXPECT_EQ(sink.width(), 80);
  sink.write("a\n");
  sink.write("");
  sink.write(std::string(10000, 'b'));
  EXPECT_EQ(pipe.read_so_far(), "a\n" + std::string(10000, 'b'));
}

TEST(TextSink, believes_what_it_is_told_of_the_terminal) {
  const Pipe pipe;
  const TextSink behind_a_pipe(pipe.writer(), 132);
  EXPECT_TRUE(behind_a_pipe.is_terminal());
  EXPECT_EQ(behind_a_pipe.width(), 132);
  const int controller = posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(controller, 0);
  EXPECT_TRUE(TextSink(controller).is_terminal());
  EXPECT_FALSE(TextSink(controller, 0).is_terminal());
  close(controller);
}

TEST(TextSink, survives_a_closed_pipe) {
  let_writes_fail();
  Pipe pipe;
  TextSink sink(pipe.writer());
  pipe.close_reader();
  for (int i = 0; i < 3; ++i) sink.write("nobody reads this\n");
}

TEST(TextSink, does_not_wait_for_a_reader_that_stays_slow) {
  const Pipe pipe;
  TextSink sink(pipe.writer());
  const std::string line = std::string(999, 'x') + "\n";
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 10000; ++i) sink.write(line);  // far above a pipe's 64 KiB
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);

  const std::string kept = pipe.read_so_far();
  EXPECT_GE(kept.size(), 50000U);
  sink.write("after\n");
  const std::string later = pipe.read_so_far();
  EXPECT_TRUE(later == "after\n" || later == "\nafter\n") << later;
  // Every line is whole but the last, which the end of line closes.
  const std::string all = kept + later;
  for (std::size_t start_of_line = 0; start_of_line < kept.size();) {
    const std::size_t end = all.find('\n', start_of_line);
    const std::string_view one = std::string_view(all).substr(start_of_line, end - start_of_line);
    EXPECT_TRUE(one.size() == 999 || end >= kept.size()) << one.size();
    start_of_line = end + 1;
  }
}

TEST(TextSink, gives_up_after_an_error) {
  TextSink sink(-1);
  sink.write("nowhere\n");
  sink.write("nowhere\n");
  const int full = open("/dev/full", O_WRONLY);
  ASSERT_GE(full, 0);
  TextSink to_full(full);
  to_full.write("no space\n");
  to_full.write("no space\n");
  close(full);
}

}  // namespace coxswain::report
