#pragma once

// Numbers of fields in onnx.proto.
namespace coxswain::onnx::field {

namespace model {
enum { kIrVersion = 1, kProducer = 2, kGraph = 7, kOpset = 8 };
}
namespace opset {
enum { kDomain = 1, kVersion = 2 };
}
namespace graph {
enum { kNode = 1, kName = 2, kInitializer = 5, kInput = 11, kOutput = 12, kSparse = 15 };
}
namespace node {
enum { kInput = 1, kOutput = 2, kName = 3, kOp = 4, kAttribute = 5, kDomain = 7 };
}
namespace attribute {
enum { kName = 1, kFloat, kInt, kString, kTensor, kGraph, kFloats, kInts, kType = 20 };
enum Type { kIsFloat = 1, kIsInt, kIsString, kIsTensor, kIsGraph, kIsFloats, kIsInts };
}  // namespace attribute
namespace tensor {
enum {
  kDims = 1,
  kType = 2,
  kFloats = 4,
  kInt32s = 5,
  kInt64s = 7,
  kName = 8,
  kRaw = 9,
  kDoubles = 10,
  kExternal = 13,
  kLocation = 14
};
constexpr int kIsExternal = 1;
}  // namespace tensor
namespace entry {
enum { kKey = 1, kValue = 2 };
}
namespace port {
enum { kName = 1, kType = 2, kTensorType = 1, kElementType = 1, kShape = 2, kDim = 1 };
enum { kLength = 1, kSymbol = 2 };
}  // namespace port

}  // namespace coxswain::onnx::field
