#include "trainer/compress/residual_watch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

namespace coxswain::compress {
namespace {

// The looks at which it tells, of a hundred.
std::vector<int> told(const std::function<double(int)>& residual) {
  ResidualWatch watch;
  std::vector<int> looks;
  for (int look = 1; look <= 100; ++look)
    if (watch.piles_up(residual(look), 1)) looks.push_back(look);
  return looks;
}

TEST(ResidualWatch, tells_once_of_what_keeps_growing) {
  EXPECT_EQ(told([](int look) { return 8.0 * look; }), std::vector{8});
  EXPECT_EQ(told([](int look) { return 1.0 * look; }), std::vector{21}) << "many times a gradient";
  EXPECT_EQ(told([](int look) { return look == 5 ? 0 : 8.0 * look; }), std::vector{13})
      << "in a row";
}

TEST(ResidualWatch, is_silent_about_what_is_sent_later) {
  EXPECT_TRUE(told([](int look) { return 19.9 - 20.0 / look; }).empty()) << "it levels off";
  EXPECT_TRUE(told([](int look) { return 100 + std::sin(look); }).empty()) << "to and fro";
  EXPECT_TRUE(told([](int) { return 100; }).empty());
}

}  // namespace
}  // namespace coxswain::compress
