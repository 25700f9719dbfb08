#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/tensor/parameter_layout.h"

namespace coxswain::train {

// View. The tensors of a checkpoint that are not taken yet.
class TensorTable {
 public:
  // Of those that are `wanted`; the others are none of its business.
  TensorTable(const std::vector<checkpoint::NamedTensor>& tensors,
              const std::function<bool(const checkpoint::NamedTensor&)>& wanted);

  // Throw Error (65) naming the tensor that is missing, of another shape, or left.
  const checkpoint::NamedTensor& take(const std::string& name, const tensor::Segment& segment);
  void expect_empty() const;

 private:
  std::map<std::string, const checkpoint::NamedTensor*> by_name_;
};

}  // namespace coxswain::train
