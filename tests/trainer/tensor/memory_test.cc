#include "trainer/tensor/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/contract/error.h"
#include "trainer/tensor/host_span.h"

namespace coxswain::tensor {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

TEST(HostMemory, allocates_zeros_on_cache_lines) {
  HostMemory memory;
  const Buffer buffer = memory.allocate(592);
  EXPECT_EQ(buffer.slice().size(), 592);
  EXPECT_EQ(buffer.slice().place(), Place::kHost);
  EXPECT_THAT(host_span(buffer.slice()), Each(0.0F));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(host_span(buffer.slice()).data()) % 64, 0U);
}

TEST(HostMemory, does_at_once_what_it_is_asked) {
  HostMemory memory;
  std::vector<float> a = {1, 2, 3, 4};
  std::vector<float> b = {10, 20, 30, 40};
  memory.add(Slice(a).range(1, 2), Slice(b).range(2, 2));
  EXPECT_THAT(a, ElementsAre(1, 32, 43, 4));
  memory.copy(Slice(b).range(0, 2), Slice(a).range(2, 2));
  EXPECT_THAT(a, ElementsAre(1, 32, 10, 20));
  memory.fill(Slice(a).range(0, 1), 7);
  memory.write(std::vector<float>{8, 9}, Slice(a).range(2, 2));
  EXPECT_THAT(a, ElementsAre(7, 32, 8, 9));
  memory.multiply(Slice(a).range(1, 2), 0.5F);
  EXPECT_THAT(a, ElementsAre(7, 16, 4, 9));
}

TEST(HostMemory, takes_snapshots_that_later_changes_do_not_reach) {
  HostMemory memory;
  std::vector<float> values = {1, 2, 3};
  const Memory::Snapshot snapshot = memory.snapshot(Slice(values).range(1, 2));
  memory.fill(values, 0);
  EXPECT_THAT(snapshot(), ElementsAre(2, 3));
}

TEST(Slice, of_a_device_is_cut_but_not_read_on_the_host) {
  float somewhere = 0;
  const Slice slice = Slice(Place::kDevice, &somewhere, 1).range(0, 1);
  EXPECT_EQ(slice.size(), 1);
  EXPECT_EQ(slice.place(), Place::kDevice);
  EXPECT_THROW(host_span(slice), Error);
}

}  // namespace
}  // namespace coxswain::tensor
