#include "trainer/contract/rfc3339.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>

namespace coxswain {

namespace {

// Takes the parts of a text off its front. What is not there makes it bad for good.
class Parts {
 public:
  explicit Parts(std::string_view text) : rest_(text) {}

  bool next_is(char c) const { return rest_.starts_with(c); }
  bool is_at_end() const { return ok_ && rest_.empty(); }

  // `length` digits.
  int number(std::size_t length) {
    if (count_digits() < length) ok_ = false;
    int value = 0;
    for (std::size_t i = 0; ok_ && i < length; ++i) value = 10 * value + (rest_[i] - '0');
    rest_.remove_prefix(std::min(length, rest_.size()));
    return value;
  }

  void skip(char c) {
    ok_ = ok_ && next_is(c);
    rest_.remove_prefix(std::min<std::size_t>(1, rest_.size()));
  }

  void skip_digits() {
    ok_ = ok_ && count_digits() > 0;
    rest_.remove_prefix(count_digits());
  }

 private:
  std::size_t count_digits() const {
    return std::min(rest_.find_first_not_of("0123456789"), rest_.size());
  }

  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace

std::string to_rfc3339(std::chrono::system_clock::time_point time, int decimals) {
  using namespace std::chrono;
  const auto second = floor<seconds>(time);
  const auto beyond = duration_cast<nanoseconds>(time - second).count();
  const std::string digits = fmt::format("{:09}", beyond).substr(0, std::size_t(decimals));
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}{}{}Z", fmt::gmtime(system_clock::to_time_t(second)),
                     digits.empty() ? "" : ".", digits);
}

// https://www.rfc-editor.org/rfc/rfc3339, section 5.6; a leap second is the second after it.
std::optional<std::chrono::sys_seconds> parse_rfc3339(std::string_view text) {
  using namespace std::chrono;
  Parts parts(text);
  const year year_part(parts.number(4));
  parts.skip('-');
  const month month_part(static_cast<unsigned>(parts.number(2)));
  parts.skip('-');
  const day day_part(static_cast<unsigned>(parts.number(2)));
  parts.skip('T');
  const hours hour(parts.number(2));
  parts.skip(':');
  const minutes minute(parts.number(2));
  parts.skip(':');
  const seconds second(parts.number(2));
  if (parts.next_is('.')) {
    parts.skip('.');
    parts.skip_digits();
  }
  minutes offset{0};
  if (parts.next_is('+') || parts.next_is('-')) {
    const int sign = parts.next_is('-') ? -1 : 1;
    parts.skip(sign < 0 ? '-' : '+');
    const hours offset_hours(parts.number(2));
    parts.skip(':');
    offset = sign * (offset_hours + minutes(parts.number(2)));
  } else {
    parts.skip('Z');
  }
  const year_month_day date(year_part, month_part, day_part);
  const bool is_clock = hour < hours(24) && minute < minutes(60) && second <= seconds(60);
  if (!parts.is_at_end() || !date.ok() || !is_clock || abs(offset) >= days(1)) return std::nullopt;
  return sys_days(date) + hour + minute + second - offset;
}

}  // namespace coxswain
