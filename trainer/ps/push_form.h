#pragma once

#include <cstdint>

#include "trainer/compress/block_form.h"
#include "trainer/ps/shard.h"

namespace coxswain::ps {

// A push is one part of a block. Plain: its floats. Encoded: as a BlockForm writes it. Its length
// says which it is.
bool is_encoded(const compress::BlockForm& form, const Piece& block, std::int64_t bytes);

// Of what a push that is encoded is; nullptr: it is plain, or no push of this server.
const Piece* encoded_block(const compress::BlockForm& form, const Shard& shard, std::int64_t offset,
                           std::int64_t bytes);

}  // namespace coxswain::ps
