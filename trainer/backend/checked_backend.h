#pragma once

#include <memory>

#include "trainer/backend/backend.h"

namespace coxswain::backend {

// Runs every step on both backends and compares: the reference's step first, then the other's from
// the same inputs. What is written - edges, parameter gradients, sums, updated weights - must agree
// within the tolerance of the operation's row (graph/operations.h); if not, throws Error (70)
// naming step, edge, element and both values. Goes on with the reference's values, so that errors
// don't add up over steps.
//
// Both on the host. The caller's parameters are the reference's, canonical; the other backend has
// its own inside, one set at a time: layout(), then make_parameters(), then prepare().
std::unique_ptr<Backend> make_checked_backend(std::unique_ptr<Backend> reference,
                                              std::unique_ptr<Backend> fast);

}  // namespace coxswain::backend
