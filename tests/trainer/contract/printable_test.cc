#include "trainer/contract/printable.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace coxswain {
namespace {

using std::string_view_literals::operator""sv;

struct Case {
  std::string_view text;
  std::string_view shown;
};

TEST(WellFormed, text_stays_and_other_bytes_are_written_out) {
  EXPECT_EQ(well_formed("caf\u00e9\n"), "caf\u00e9\n");
  EXPECT_EQ(well_formed("caf\xe9\xc3"), "caf\\xe9\\xc3");
}

TEST(Printable, shows_what_a_terminal_could_obey_and_what_is_no_text) {
  const Case cases[] = {
      {"", ""},
      {"conv1.weight", "conv1.weight"},
      {"gr\xC3\xBC\xC3\x9F \xE4\xBD\xA0 \xF0\x9F\x98\x80",
       "gr\xC3\xBC\xC3\x9F \xE4\xBD\xA0 \xF0\x9F\x98\x80"},
      {"a\nb\tc\rd", "a\\nb\\tc\\x0dd"},
      {"\x1B[2J\x7F\x00"sv, "\\x1b[2J\\x7f\\x00"},
      {"\xC2\x9B[2J", "\\xc2\\x9b[2J"},           // CSI of C1
      {"\xC2\xA0", "\xC2\xA0"},                   // the first one after C1
      {"\xE2\x80\xAEgpj", "\\xe2\\x80\\xaegpj"},  // right to left
      {"\xE2\x80\xA8|\xE2\x81\xA6", "\\xe2\\x80\\xa8|\\xe2\\x81\\xa6"},
      {"\xE2\x80\xA6", "\xE2\x80\xA6"},                       // an ellipsis, beside them
      {"\xFF\xC3", "\\xff\\xc3"},                             // no lead byte; cut off
      {"\xC0\xAF\xED\xA0\x80", "\\xc0\\xaf\\xed\\xa0\\x80"},  // overlong; a surrogate
      {"a\\b\"c", "a\\b\"c"},
  };
  for (const Case& one : cases) EXPECT_EQ(printable(one.text, 80), one.shown);
}

TEST(Printable, is_cut_between_two_characters) {
  EXPECT_EQ(printable("abc", 3), "abc");
  EXPECT_EQ(printable("abcd", 3), "abc...");
  EXPECT_EQ(printable("\xC3\xBC\xC3\xBC\xC3\xBC", 2), "\xC3\xBC\xC3\xBC...");
  EXPECT_EQ(printable("\x1B\x1B\x1B", 2), "\\x1b\\x1b...");
  EXPECT_EQ(printable("a", 0), "...");
}

TEST(Printable, changes_nothing_the_second_time) {
  const std::string once = printable("\x1B[31mred\xFF\n", 80);

  EXPECT_EQ(printable(once, 80), once);
}

TEST(Printable, puts_a_backslash_before_chosen_characters) {
  EXPECT_EQ(printable("a\\b\"c\xC3\xBC", 80, "\"\\"), "a\\\\b\\\"c\xC3\xBC");
}

TEST(Shortened, is_cut_between_two_characters_and_says_so) {
  struct Cut {
    std::string_view text;
    std::size_t limit;
    std::string_view mark;
    std::string_view shown;
  };
  const Cut cases[] = {
      {"abcd", 4, "...", "abcd"},
      {"abcde", 4, "...", "a..."},
      {"abcde", 4, "", "abcd"},
      {"ab\xC3\xBC", 3, "", "ab"},
      {"ab\xC3\xBC", 4, "", "ab\xC3\xBC"},
      {"ab\xF0\x9F\x9A\xA3z", 5, "", "ab"},
      {"\xC3\xBC\xC3\xBC\xC3\xBC", 5, "...", "\xC3\xBC..."},
      {"abcde", 3, "...", "..."},
      {"abcde", 0, "", ""},
      {"\x80\x80\x80", 2, "", ""},  // no character begins in it
  };
  for (const Cut& one : cases)
    EXPECT_EQ(shortened(one.text, one.limit, one.mark), one.shown) << one.text << one.limit;
}

}  // namespace
}  // namespace coxswain
