#pragma once

#include <map>
#include <string>

#include "trainer/data/dataset.h"
#include "trainer/data/preprocessor.h"

namespace coxswain::data {

// What is remembered of a set, to tell another one from it: "samples", "shape" (CxHxW), "classes",
// "labels", a hash of them (of a large set, of some a million spread over it), and "content", one
// of the images, where they have one.
std::map<std::string, std::string> identity_of(const Dataset& dataset);

// Throws Error (65) when the test set's images have another number of classes, or another shape
// when they are prepared.
void require_one_kind(const Dataset& training, const Dataset& test,
                      const Preprocessing& training_steps = {},
                      const Preprocessing& test_steps = {});

}  // namespace coxswain::data
