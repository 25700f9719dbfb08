#include "operator/job/status.h"

#include <gtest/gtest.h>

namespace coxswain::job {

TEST(Ranks, are_written_as_ranges_and_read_back) {
  const std::pair<std::set<int>, const char*> table[] = {
      {{}, ""},
      {{0}, "0"},
      {{0, 1}, "0-1"},
      {{0, 1, 2, 3, 7}, "0-3,7"},
      {{1, 3, 5}, "1,3,5"},
      {{4094, 4095}, "4094-4095"},
  };
  for (const auto& [ranks, text] : table) {
    EXPECT_EQ(to_text(ranks), text);
    EXPECT_EQ(parse_ranks(text), ranks);
  }
}

TEST(Ranks, that_make_no_sense_read_as_none) {
  for (const char* text : {"x", "1-", "-1", "3-1", "1,,2", "0-99999999", "1;2", "1-2-3"})
    EXPECT_EQ(parse_ranks(text), std::set<int>{}) << text;
}

}  // namespace coxswain::job
