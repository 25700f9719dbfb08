#include "operator/job/quantity.h"

#include <gtest/gtest.h>

#include <string>

namespace coxswain::job {

TEST(Quantity, is_read_in_its_unit) {
  const std::pair<const char*, double> table[] = {
      {"0", 0},
      {"2", 2},
      {"1.5", 1.5},
      {"500m", 0.5},
      {"1k", 1000},
      {"2M", 2e6},
      {"4Gi", 4.0 * 1073741824},
      {"1Ki", 1024},
      {"1e3", 1000},
      {"1E3", 1000},
      {"1E", 1e18},
  };
  for (const auto& [text, value] : table) {
    const auto read = parse_quantity(text);
    ASSERT_TRUE(read) << text;
    EXPECT_DOUBLE_EQ(*read, value) << text;
  }
}

TEST(Quantity, that_is_none_or_too_large_is_refused) {
  for (const char* text : {"", "x", "1 core", "1e999999999Gi", "1e999999999", "-1", "1KiB", "1ki",
                           "9e18Gi", "nan", "inf", "0x10", "1e3Gi"})
    EXPECT_FALSE(parse_quantity(text)) << text;
  EXPECT_FALSE(parse_quantity(std::string(100, '1')));
}

}  // namespace coxswain::job
