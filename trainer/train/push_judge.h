#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "trainer/compress/balance.h"
#include "trainer/compress/codec.h"
#include "trainer/compress/residual_watch.h"
#include "trainer/tensor/parameter_layout.h"

namespace coxswain::train {

// PURE: what rank 0 says of the codec of its pushes.

// "2bit, threshold 0.01"
std::string describe(const compress::Codec& codec);
// Before the first step; bytes of one.
std::string note_of(const compress::Codec& codec, std::int64_t bytes, std::int64_t plain_bytes);
// Of one that does not pay. `is_left`: pushes are without it from now on.
std::string warning_of(const compress::Codec& codec, const compress::Balance& balance,
                       bool is_left);
// Of one that leaves out too much.
std::string warning_of(const compress::Codec& codec, std::int64_t step);

// The Euclidean norm of what is trained.
double norm_of(const tensor::ParameterLayout& layout, std::span<const float> flat);

}  // namespace coxswain::train
