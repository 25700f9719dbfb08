#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

// What is read and written of ONNX (github.com/onnx/onnx, onnx/onnx.proto).
namespace coxswain::onnx {

// Value. Where a tensor's values lie outside the model's file. Without a location: nowhere.
struct External {
  std::string location = {};
  std::uint64_t offset = 0;
  std::optional<std::uint64_t> bytes = {};  // none: to the end
  bool operator==(const External&) const = default;
};

// The numbers of TensorProto.DataType.
enum class ElementType {
  kFloat = 1,
  kInt32 = 6,
  kInt64 = 7,
  kBool = 9,
  kHalf = 10,
  kDouble = 11,
  kBFloat16 = 16,
};
bool is_float(ElementType type);

// Value. Floats of any width are held in 32 bits, integers in 64. With `external` it has no values
// of its own.
struct Tensor {
  std::string name = {};
  std::vector<std::int64_t> dims = {};
  ElementType type = ElementType::kFloat;
  std::vector<float> floats = {};
  std::vector<std::int64_t> integers = {};
  std::optional<External> external = {};
  bool operator==(const Tensor&) const = default;
};

// Of dimensions that decode() has seen, whose product it has checked.
std::uint64_t elements_of(const std::vector<std::int64_t>& dims);

// Value. `value` holds nothing where it is of a kind that no operation known here has.
struct Attribute {
  std::string name;
  std::variant<std::monostate, std::int64_t, float, std::string, std::vector<std::int64_t>,
               std::vector<float>, Tensor>
      value = {};
  bool operator==(const Attribute&) const = default;
};

// Value. An input that is left out has an empty name.
struct Node {
  std::string op;
  std::string domain = {};
  std::string name = {};
  std::vector<std::string> inputs = {};
  std::vector<std::string> outputs = {};
  std::vector<Attribute> attributes = {};
  bool operator==(const Node&) const = default;
};

// Value. What a model is given or gives; -1: of any length. `type` may be one that no tensor read
// here has.
struct Port {
  std::string name;
  std::vector<std::int64_t> dims = {};
  ElementType type = ElementType::kFloat;
  bool operator==(const Port&) const = default;
};

// Value. `where`: the file's name, for errors.
struct Model {
  std::string where = {};
  std::int64_t opset = 0;
  std::vector<Node> nodes = {};
  std::vector<Tensor> tensors = {};
  std::vector<Port> inputs = {};  // tensors may stand among them
  std::vector<Port> outputs = {};
  bool operator==(const Model&) const = default;
};

// Throws Error (65): "[model] net.onnx: what".
[[noreturn]] void refuse(const Model& model, const std::string& what);

// The model without the values of its weights: those of float tensors of more than one element.
Model without_weights(Model model);

}  // namespace coxswain::onnx
