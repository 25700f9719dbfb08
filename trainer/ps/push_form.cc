#include "trainer/ps/push_form.h"

namespace coxswain::ps {

bool is_encoded(const compress::BlockForm& form, const Piece& block, std::int64_t bytes) {
  const auto plain = block.length * static_cast<std::int64_t>(sizeof(float));
  return bytes != plain && bytes == form.bytes_of(block.offset, block.length);
}

const Piece* encoded_block(const compress::BlockForm& form, const Shard& shard, std::int64_t offset,
                           std::int64_t bytes) {
  const Piece* block = shard.find(offset);
  return block != nullptr && is_encoded(form, *block, bytes) ? block : nullptr;
}

}  // namespace coxswain::ps
