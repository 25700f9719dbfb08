#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "trainer/contract/printable.h"
#include "trainer/onnx/translator.h"

namespace coxswain::onnx {

namespace {

constexpr std::int64_t kMostExtent = 1 << 16;

}  // namespace

int Translator::equal(const Node& node, std::string_view what,
                      const std::vector<std::int64_t>& values, std::size_t count) const {
  const bool is_one = values.size() == count && std::ranges::count(values, values.front()) ==
                                                    static_cast<std::ptrdiff_t>(count);
  if (!is_one)
    refuse(model_, node,
           fmt::format("its {} are {}: must be {}, all the same", what, fmt::join(values, ", "),
                       count));
  if (values.front() < 0 || values.front() > kMostExtent)
    refuse(model_, node, fmt::format("its {} of {} are out of range", what, values.front()));
  return static_cast<int>(values.front());
}

int Translator::kernel_of(const Node& node, const NodeAttributes& attributes) const {
  return equal(node, "kernel_shape", attributes.integers("kernel_shape", {0, 1}), 2);
}

Window Translator::window_of(const Node& node, const NodeAttributes& attributes, Value value,
                             int kernel) {
  Window window{.kernel = kernel};
  window.stride = equal(node, "strides", attributes.integers("strides", {1, 1}), 2);
  if (equal(node, "dilations", attributes.integers("dilations", {1, 1}), 2) != 1)
    refuse(model_, node, "its dilations must be 1");
  window.pad = pad_of(node, attributes, value, window);
  return window;
}

int Translator::pad_of(const Node& node, const NodeAttributes& attributes, Value value,
                       const Window& window) {
  const std::string kind = attributes.text("auto_pad", "NOTSET");
  if (kind == "VALID") return 0;
  if (kind == "NOTSET") return equal(node, "pads", attributes.integers("pads", {0, 0, 0, 0}), 4);
  if (kind != "SAME_UPPER" && kind != "SAME_LOWER")
    refuse(model_, node, fmt::format("its auto_pad {} is not known", printable(kind, 40)));
  if (window.stride < 1) refuse(model_, node, "its strides must be at least 1");
  const auto both_sides = [&](std::int64_t size) {
    const std::int64_t outputs = (size + window.stride - 1) / window.stride;
    return std::max<std::int64_t>(0, (outputs - 1) * window.stride + window.kernel - size);
  };
  const tensor::Shape& in = shape_of(value);
  const std::int64_t rows = both_sides(in.h);
  if (rows % 2 != 0 || rows != both_sides(in.w))
    refuse(model_, node,
           fmt::format("its auto_pad {} pads {}x{} images unevenly, which is not known", kind, in.h,
                       in.w));
  return static_cast<int>(rows / 2);
}

void Translator::check_rounding(const Node& node, const NodeAttributes& attributes, Value value,
                                const Window& window) {
  if (attributes.integer("ceil_mode", 0) == 0 || window.stride < 1) return;
  const tensor::Shape& in = shape_of(value);
  for (const std::int64_t size : {in.h, in.w}) {
    const std::int64_t room = size + 2 * std::int64_t{window.pad} - window.kernel;
    if (room < 0 || room % window.stride == 0) continue;
    const std::int64_t begin = (room / window.stride + 1) * window.stride;
    if (begin >= size + window.pad) continue;  // a window of padding alone is left out
    refuse(model_, node,
           fmt::format("its ceil_mode gives a window that is not whole at {}x{}: known where that "
                       "makes no difference",
                       in.h, in.w));
  }
}

void Translator::conv(const Node& node) {
  const NodeAttributes attributes(
      model_, node, {"kernel_shape", "strides", "pads", "dilations", "group", "auto_pad"});
  const Value padded = any_value(node, 0);
  const bool takes_zeros = padded.form == Form::kPadded && !padded.last &&
                           !attributes.text("auto_pad", "").starts_with("SAME");
  const Value x = takes_zeros ? padded : image(node, 0);
  const Tensor& weights = weight(node, 1, 4);
  const int kernel = equal(node, "window's sides", {weights.dims[2], weights.dims[3]}, 2);
  Window window = window_of(node, attributes, x, kernel);
  if (takes_zeros) window.pad += static_cast<int>(padded.factor);
  const std::int64_t groups = attributes.integer("group", 1);
  if (groups < 1 || groups > weights.dims[0])
    refuse(model_, node, fmt::format("its group {} is out of range", groups));
  const bool bias = has_input(node, 2) && !constants_.is_made_of_zeros(node.inputs[2]);
  if (bias) weight(node, 2, 1);
  const std::string name = weighted_name(node, "conv", {".weight", ".bias"});
  const int made = builder_.conv(x.node, name, weights.dims[0], window.kernel, window.stride,
                                 window.pad, bias, kInit, static_cast<int>(groups));
  give(node, {place(node, made)});
  take(node, 1, name + ".weight");
  if (bias) take(node, 2, name + ".bias");
}

void Translator::max_pool(const Node& node) {
  const NodeAttributes attributes(
      model_, node,
      {"kernel_shape", "strides", "pads", "dilations", "auto_pad", "ceil_mode", "storage_order"});
  const Value x = image(node, 0);
  const Window window = window_of(node, attributes, x, kernel_of(node, attributes));
  check_rounding(node, attributes, x, window);
  give(node, {place(node, builder_.max_pool(x.node, window.kernel, window.stride, window.pad))});
}

void Translator::average_pool(const Node& node) {
  const NodeAttributes attributes(model_, node,
                                  {"kernel_shape", "strides", "pads", "dilations", "auto_pad",
                                   "ceil_mode", "count_include_pad"});
  const Value x = image(node, 0);
  const Window window = window_of(node, attributes, x, kernel_of(node, attributes));
  check_rounding(node, attributes, x, window);
  const bool counts = window.pad > 0 && attributes.integer("count_include_pad", 0) != 0;
  if (window.kernel == 1 && window.stride == 1) return give(node, x);
  give(node,
       {place(node, builder_.avg_pool(x.node, window.kernel, window.stride, window.pad, counts))});
}

void Translator::global_average_pool(const Node& node) {
  const NodeAttributes attributes(model_, node, {});
  give(node, {place(node, builder_.global_avg_pool(image(node, 0).node))});
}

}  // namespace coxswain::onnx
