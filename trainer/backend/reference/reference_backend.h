#pragma once

#include <memory>

#include "trainer/backend/backend.h"

namespace coxswain::backend {

// Plain loops on one thread: the specification that every other backend is compared with. Its
// layout is canonical whatever kind is asked for. Edges of bf16 or fp16 hold floats
// rounded to it; operations that touch one compute from inputs and weights rounded alike, sum in
// double, and round what they write.
std::unique_ptr<Backend> make_reference_backend();

}  // namespace coxswain::backend
