#include "trainer/unexpected_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <system_error>

namespace coxswain {
namespace {

using ::testing::HasSubstr;

TEST(UnexpectedError, names_the_limit_that_a_thread_met) {
  const std::system_error refused(std::make_error_code(std::errc::resource_unavailable_try_again));
  EXPECT_THAT(words_of(refused), HasSubstr("no more threads may be started: lower threads"));
}

TEST(UnexpectedError, is_internal_else) {
  EXPECT_EQ(words_of(std::runtime_error("x")), "internal error: x");
  const std::system_error other(std::make_error_code(std::errc::io_error));
  EXPECT_THAT(words_of(other), HasSubstr("internal error: "));
}

}  // namespace
}  // namespace coxswain
