#include "trainer/launch/error_filter.h"

#include <gtest/gtest.h>

namespace coxswain::launch {
namespace {

const std::string kDashes = std::string(74, '-') + "\n";
const std::string kReport =
    kDashes + "mpirun noticed that process rank 1 with PID 0 on node a\n" + kDashes;

TEST(ErrorFilter, passes_and_drops) {
  struct Row {
    const char* name;
    std::string input;
    bool ranks_started;
    std::string shown;
    std::string complaint;
  };
  const std::string other = kDashes + "A warning of the library.\n" + kDashes;
  const Row rows[] = {
      {"plain", "one\ntwo", true, "one\ntwo", ""},
      {"progress without line end", "\rstep 3", true, "\rstep 3", ""},
      {"report", "a\n" + kReport + "b\n", true, "a\nb\n", ""},
      {"two reports", kReport + kReport, true, "", ""},
      {"foreign frame", other, true, other, ""},
      {"foreign frame, then report", other + kReport + "z", true, other + "z", ""},
      {"dashes of another length", "-----\nx\n", true, "-----\nx\n", ""},
      {"longer line of dashes", "-" + kDashes, true, "-" + kDashes, ""},
      {"only dashes", kDashes, true, kDashes, ""},
      {"complaint", kDashes + "No slots\nleft.\n\nmore\n" + kDashes + "x\n", false, "x\n",
       "No slots left."},
      {"report before any start", kReport, false, "", ""},
  };
  for (const Row& row : rows) {
    for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, row.input.size()}) {
      ErrorFilter filter;
      std::string shown;
      for (std::size_t at = 0; at < row.input.size(); at += piece) {
        shown += filter.take(std::string_view(row.input).substr(at, piece), row.ranks_started);
      }
      shown += filter.finish();
      EXPECT_EQ(shown, row.shown) << row.name << ", pieces of " << piece;
      EXPECT_EQ(filter.complaint(), row.complaint) << row.name << ", pieces of " << piece;
    }
  }
}

TEST(ErrorFilter, shows_a_part_of_a_line_at_once) {
  ErrorFilter filter;
  EXPECT_EQ(filter.take("step 3", true), "step 3");
  EXPECT_EQ(filter.take("-", true), "-");
}

}  // namespace
}  // namespace coxswain::launch
