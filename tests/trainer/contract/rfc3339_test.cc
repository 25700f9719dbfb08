#include "trainer/contract/rfc3339.h"

#include <gtest/gtest.h>

namespace coxswain {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;
using std::chrono::sys_seconds;
using std::chrono::system_clock;

const sys_seconds kNoon =
    std::chrono::sys_days(std::chrono::year(2026) / 1 / 31) + std::chrono::hours(12);

TEST(Rfc3339, is_written_in_utc_with_as_many_decimals_as_asked_for) {
  const system_clock::time_point time = kNoon + microseconds(1'234'506);
  EXPECT_EQ(to_rfc3339(time), "2026-01-31T12:00:01Z");
  EXPECT_EQ(to_rfc3339(time, 3), "2026-01-31T12:00:01.234Z");
  EXPECT_EQ(to_rfc3339(time, 6), "2026-01-31T12:00:01.234506Z");
  EXPECT_EQ(to_rfc3339(system_clock::from_time_t(0) - microseconds(1), 6),
            "1969-12-31T23:59:59.999999Z");
}

TEST(Rfc3339, is_read_to_the_second) {
  const std::pair<const char*, sys_seconds> cases[] = {
      {"2026-01-31T12:00:00Z", kNoon},
      {"2026-01-31T12:00:00.789Z", kNoon},
      {"2026-01-31T12:00:00.123456789Z", kNoon},
      {"2026-01-31T14:30:07+02:30", kNoon + seconds(7)},
      {"2026-01-31T00:00:00.5-12:00", kNoon},
      {"2026-01-31T11:59:60Z", kNoon},
      {"1970-01-01T00:00:00Z", sys_seconds(seconds(0))},
  };
  for (const auto& [text, time] : cases) EXPECT_EQ(parse_rfc3339(text), time) << text;
}

TEST(Rfc3339, refuses_what_is_no_time) {
  const char* const cases[] = {
      "",
      "now",
      "2026-01-31",
      "2026-01-31T12:00:00",
      "2026-01-31 12:00:00Z",
      "2026-1-31T12:00:00Z",
      "2026-01-31T12:00Z",
      "2026-01-31T12:00:00.Z",
      "2026-01-31T12:00:00ZZ",
      "2026-01-31T12:00:00+0100",
      "2026-01-31T12:00:00+99:00",
      "2026-02-31T12:00:00Z",
      "2026-13-01T12:00:00Z",
      "2026-01-31T24:00:00Z",
      "2026-01-31T12:60:00Z",
      "2026-01-31T12:00:61Z",
      "+026-01-31T12:00:00Z",
  };
  for (const char* text : cases) EXPECT_FALSE(parse_rfc3339(text)) << text;
}

}  // namespace
}  // namespace coxswain
