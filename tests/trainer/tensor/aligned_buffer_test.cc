#include "trainer/tensor/aligned_buffer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <new>
#include <utility>
#include <vector>

namespace coxswain::tensor {
namespace {

TEST(AlignedBuffer, holds_zeros_on_a_page_boundary) {
  for (const std::int64_t count : {1, 16, 4097, 1 << 20}) {
    const AlignedBuffer<float> buffer(count);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 4096, 0U);
    ASSERT_EQ(buffer.size(), static_cast<std::size_t>(count));
    for (const float value : buffer.span()) ASSERT_EQ(value, 0.0F);
    buffer.span().back() = 1;
    EXPECT_EQ(buffer.data()[count - 1], 1.0F);
  }
}

TEST(AlignedBuffer, may_be_empty) {
  EXPECT_EQ(AlignedBuffer<float>().size(), 0U);
  EXPECT_EQ(AlignedBuffer<float>(0).data(), nullptr);
  EXPECT_TRUE(AlignedBuffer<float>(0).span().empty());
}

TEST(AlignedBuffer, moves_without_copying) {
  AlignedBuffer<float> first(100);
  float* memory = first.data();
  memory[99] = 7;
  AlignedBuffer<float> second(std::move(first));
  EXPECT_EQ(second.data(), memory);
  AlignedBuffer<float> third(50);
  third = std::move(second);
  EXPECT_EQ(third.data(), memory);
  EXPECT_EQ(third.size(), 100U);
  std::vector<AlignedBuffer<float>> many;
  many.push_back(std::move(third));
  for (int i = 0; i < 10; ++i) many.emplace_back(i);
  EXPECT_EQ(many.front().data(), memory);
  EXPECT_EQ(many.front().span()[99], 7.0F);
}

TEST(AlignedBuffer, refuses_what_no_machine_has) {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_THROW(AlignedBuffer<float>(std::int64_t{1} << 60), std::bad_alloc);
  EXPECT_THROW(AlignedBuffer<float>(-1), std::bad_alloc);
  EXPECT_THROW(AlignedBuffer<float>{most}, std::bad_alloc);
  EXPECT_THROW(AlignedBuffer<double>((std::int64_t{1} << 61) + 1),
               std::bad_alloc);  // 8 bytes, mod 2^64
}

}  // namespace
}  // namespace coxswain::tensor
