#include "trainer/data/dataset_identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/data/data_files.h"

namespace coxswain::data {
namespace {

using coxswain::test::error_of;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

TEST(DatasetIdentity, tells_sets_apart_by_what_a_model_sees_of_them) {
  const auto identity = [](tensor::Shape shape, std::int64_t classes, std::int64_t size,
                           std::uint64_t seed) {
    return identity_of(*make_synthetic(shape, classes, size, seed));
  };
  const auto one = identity({1, 3, 4, 5}, 10, 60, 7);
  EXPECT_THAT(one, UnorderedElementsAre(Pair("samples", "60"), Pair("shape", "3x4x5"),
                                        Pair("classes", "10"), Pair("labels", testing::_)));
  EXPECT_EQ(identity({1, 3, 4, 5}, 10, 60, 7), one);
  for (const auto& other : {identity({1, 3, 5, 4}, 10, 60, 7), identity({1, 3, 4, 5}, 9, 60, 7),
                            identity({1, 3, 4, 5}, 10, 61, 7), identity({1, 3, 4, 5}, 10, 60, 8)}) {
    EXPECT_NE(other, one);
  }
  EXPECT_NE(identity({1, 3, 4, 5}, 10, 60, 8).at("labels"), one.at("labels"));
}

TEST(DatasetIdentity, of_a_billion_samples_does_not_read_them_all) {
  const auto large = make_synthetic({1, 1, 2, 2}, 10, 1'000'000'000, 7);
  const auto other = make_synthetic({1, 1, 2, 2}, 10, 1'000'000'000, 8);
  EXPECT_NE(identity_of(*large).at("labels"), identity_of(*other).at("labels"));
}

TEST(DatasetIdentity, of_both_sets_must_be_of_one_kind) {
  const auto training = make_synthetic({1, 1, 4, 6}, 10, 60, 7);
  const auto refusal = [&](tensor::Shape shape, std::int64_t classes) {
    const auto test = make_synthetic(shape, classes, 9, 7);
    return error_of([&] { require_one_kind(*training, *test); });
  };
  EXPECT_EQ(refusal({1, 1, 6, 4}, 10),  // as many pixels
            "65 [data] training images are 1x4x6 in 10 classes, test images 1x6x4 in 10: let "
            "data.augment, and data.evalAugment where it is given, make them one size (as resize "
            "and centre-crop do), or set data.path and data.evalPath to parts of one set");
  EXPECT_THAT(refusal({1, 1, 4, 6}, 9),
              testing::HasSubstr("test images 1x4x6 in 9: set data.path"));
  EXPECT_NO_THROW(require_one_kind(*training, *make_synthetic({1, 1, 4, 6}, 10, 9, 8)));
}

}  // namespace
}  // namespace coxswain::data
