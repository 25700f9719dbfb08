#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trainer/onnx/model.h"

namespace coxswain::onnx {

// What a model's values are where they don't depend on the images: its tensors, and what its nodes
// make of them and of shapes. Refers to the model, which must outlive it.
class Constants {
 public:
  explicit Constants(const Model& model);

  // Null: there is none of this name.
  const Tensor* find(const std::string& value) const;
  std::optional<double> scalar(const std::string& value) const;
  std::optional<std::vector<std::int64_t>> integers(const std::string& value) const;

  // A shape, whose batch may be -1.
  void add_shape(const std::string& value, std::vector<std::int64_t> dims);

  // Computes a node whose inputs are all known. False: it is no such node, or of an operation that
  // is not known here.
  bool fold(const Node& node);

 private:
  bool is_known(const Node& node) const;
  void add_constant(const Node& node);
  std::optional<Tensor> gathered(const Node& node) const;
  std::optional<Tensor> joined(const Node& node) const;
  std::optional<Tensor> reshaped(const Node& node) const;
  void add(const std::string& value, Tensor tensor);

  const Model& model_;
  std::map<std::string, const Tensor*> known_;
  std::deque<Tensor> made_;
};

}  // namespace coxswain::onnx
