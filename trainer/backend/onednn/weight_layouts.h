#pragma once

#include <map>
#include <string>

#include "trainer/backend/onednn/onednn_compat.h"
#include "trainer/tensor/parameter_layout.h"

namespace coxswain::backend::onednn {

// The word for a weight's inner order in Segment::layout: "64x32x3x3 stride 9216x4608x768x256 block
// 16b16a".
std::string name_of(const Desc& desc);

Desc plain(const Dims& dims, Type type);  // row-major; 1, 2, 4 or 5 dimensions

// The inner order of an activation with elements of another type; row-major where it is none of the
// orders that activations have.
Desc with_type(const Desc& desc, Type type);
Dims dims_of_segment(const tensor::Segment& segment);

// The inner orders that one backend has handed out, by name: a oneDNN descriptor can't be read back
// from its text in every version.
class WeightLayouts {
 public:
  // Keeps `desc` if it can be a segment's order, and names it. "canonical" for a plain order.
  std::string add(const Desc& desc);

  // The segment's order; throws Error for a name that this backend never handed out.
  Desc find(const tensor::Segment& segment) const;

 private:
  std::map<std::string, Desc> by_name_;
};

}  // namespace coxswain::backend::onednn
