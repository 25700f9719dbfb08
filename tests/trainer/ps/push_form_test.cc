#include "trainer/ps/push_form.h"

#include <gtest/gtest.h>

#include "tests/trainer/ps/whole.h"

namespace coxswain::ps {
namespace {

TEST(PushForm, is_told_by_its_length) {
  const Plan plan = plan_of(2);
  const Shard shard(plan, 0);
  for (const auto& [kind, word] : words_of(Compression{})) {
    if (kind == Compression::kNone) continue;
    SCOPED_TRACE(word);
    const compress::BlockForm form(plan.layout, {.kind = kind});
    for (const Piece& block : shard.pieces()) {
      const std::int64_t bytes = form.bytes_of(block.offset, block.length);
      EXPECT_EQ(is_encoded(form, block, bytes), bytes != block.length * 4)
          << "or none is gradients";
      EXPECT_FALSE(is_encoded(form, block, bytes + 1));
      EXPECT_FALSE(is_encoded(form, block, block.length * 4)) << "plain";
      EXPECT_EQ(encoded_block(form, shard, block.offset, bytes) != nullptr,
                bytes != block.length * 4);
      EXPECT_EQ(encoded_block(form, shard, block.offset + 1, bytes), nullptr);
    }
  }
}

}  // namespace
}  // namespace coxswain::ps
