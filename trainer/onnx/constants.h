#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trainer/onnx/model.h"

namespace coxswain::onnx {

// What a Shape gives.
Tensor part_of_shape(const Model& model, const Node& node, const std::vector<std::int64_t>& dims);

// What a model's values are where they don't depend on the images: its tensors, and what its nodes
// make of them and of shapes. Refers to the model, which must outlive it.
class Constants {
 public:
  explicit Constants(const Model& model);

  // Null: there is none of this name.
  const Tensor* find(const std::string& value) const;
  std::optional<double> scalar(const std::string& value) const;
  std::optional<std::vector<std::int64_t>> integers(const std::string& value) const;

  // What an exporter gives a layer without a bias.
  bool is_made_of_zeros(const std::string& value) const;

  // What is made of a shape, whose batch may be -1.
  void add(const std::string& value, Tensor tensor);

  // Computes a node whose inputs are all known. False: it is no such node, or of an operation that
  // is not known here.
  bool fold(const Node& node);

 private:
  bool is_known(const Node& node) const;
  void add_constant(const Node& node);
  std::optional<Tensor> gathered(const Node& node) const;
  std::optional<Tensor> sliced(const Node& node) const;
  std::optional<Tensor> joined(const Node& node) const;
  std::optional<Tensor> reshaped(const Node& node) const;
  std::optional<Tensor> transposed(const Node& node) const;
  std::optional<Tensor> computed(const Node& node) const;
  std::optional<Tensor> filled(const Node& node) const;
  std::optional<Tensor> expanded(const Node& node) const;
  std::optional<Tensor> shape(const Node& node) const;

  const Model& model_;
  std::map<std::string, const Tensor*> known_;
  std::deque<Tensor> made_;
};

}  // namespace coxswain::onnx
