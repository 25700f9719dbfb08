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

// Zeros around images, for the window that reads them.
void Translator::pad(const Node& node) {
  constexpr std::int64_t kMost = 1 << 10;
  const NodeAttributes attributes(model_, node, {"mode", "pads", "value"});
  Value x = of_any_order(node, 0);
  const auto given =
      has_input(node, 1) ? constants_.integers(node.inputs[1]) : attributes.integers("pads", {});
  const double value = has_input(node, 2) ? constants_.scalar(node.inputs[2]).value_or(1)
                                          : static_cast<double>(attributes.real("value", 0));
  const bool of_images = given && given->size() == 8;
  const std::int64_t before = of_images ? (*given)[2] : -1;
  const std::int64_t after = of_images ? (*given)[6] : -1;
  const std::vector<std::int64_t> around =
      x.last ? std::vector<std::int64_t>{0, before, before, 0, 0, after, after, 0}
             : std::vector<std::int64_t>{0, 0, before, before, 0, 0, after, after};
  if (x.flat || has_input(node, 3) || attributes.text("mode", "constant") != "constant" ||
      value != 0 || std::min(before, after) < 0 || std::max(before, after) > kMost ||
      *given != around)
    refuse(model_, node, "known is zeros around images, as many above as left, and below as right");
  x.form = Form::kPadded;
  x.pad = static_cast<int>(before);
  x.pad_extra = static_cast<int>(after - before);
  give(node, x);
}

// Images, of which a Pad before may be part of the window that reads them.
Translator::Value Translator::padded_image(const Node& node, const NodeAttributes& attributes) {
  const Value x = any_value(node, 0);
  const bool takes_zeros =
      x.form == Form::kPadded && !x.last && !attributes.text("auto_pad", "").starts_with("SAME");
  return takes_zeros ? x : image(node, 0);
}

Window Translator::window_of(const Node& node, const NodeAttributes& attributes, Value value,
                             int kernel) {
  Window window{.kernel = kernel};
  window.stride = equal(node, "strides", attributes.integers("strides", {1, 1}), 2);
  if (window.stride < 1) refuse(model_, node, "its strides must be at least 1");
  if (equal(node, "dilations", attributes.integers("dilations", {1, 1}), 2) != 1)
    refuse(model_, node, "its dilations must be 1");
  pad_window(node, attributes, value, window);
  window.pad += value.pad;
  window.pad_extra += value.pad_extra;
  return window;
}

// Whether it gives so many rows and columns.
bool Translator::gives(const Window& window, Value value, std::int64_t rows, std::int64_t columns) {
  const auto outputs = [&](std::int64_t size) {
    const std::int64_t room = size + 2 * window.pad + window.pad_extra - window.kernel;
    return room < 0 ? 0 : room / window.stride + 1;
  };
  const tensor::Shape& in = shape_of(value);
  return outputs(in.h) == rows && outputs(in.w) == columns;
}

void Translator::pad_window(const Node& node, const NodeAttributes& attributes, Value value,
                            Window& window) {
  const std::string kind = attributes.text("auto_pad", "NOTSET");
  if (kind == "VALID") return;
  if (kind == "NOTSET") {
    const std::vector<std::int64_t> pads = attributes.integers("pads", {0, 0, 0, 0});
    if (pads.size() != 4) equal(node, "pads", pads, 4);
    window.pad = equal(node, "pads before", {pads[0], pads[1]}, 2);
    window.pad_extra = equal(node, "pads after", {pads[2], pads[3]}, 2) - window.pad;
    return;
  }
  if (kind != "SAME_UPPER" && kind != "SAME_LOWER")
    refuse(model_, node, fmt::format("its auto_pad {} is not known", printable(kind, 40)));
  const auto outputs = [&](std::int64_t size) {
    return (size + window.stride - 1) / window.stride;
  };
  const auto padding = [&](std::int64_t size) {
    return std::max<std::int64_t>(0, (outputs(size) - 1) * window.stride + window.kernel - size);
  };
  const auto before = [&](std::int64_t size) {
    return (padding(size) + (kind == "SAME_LOWER" ? 1 : 0)) / 2;
  };
  const tensor::Shape& in = shape_of(value);
  const std::int64_t most = std::max(padding(in.h), padding(in.w));
  window.pad = static_cast<int>(before(in.h));
  window.pad_extra = static_cast<int>(most - 2 * before(in.h));
  if (before(in.h) != before(in.w) || !gives(window, value, outputs(in.h), outputs(in.w)))
    refuse(model_, node,
           fmt::format("its auto_pad {} pads rows and columns of {}x{} images differently, which "
                       "is not known",
                       kind, in.h, in.w));
}

// A last window that is not whole reads what more there is after the last row and column: nothing.
void Translator::round_up(const Node& node, const NodeAttributes& attributes, Value value,
                          Window& window) {
  if (attributes.integer("ceil_mode", 0) == 0) return;
  const auto outputs = [&](std::int64_t size) {
    const std::int64_t room = size + 2 * window.pad + window.pad_extra - window.kernel;
    if (room < 0) return std::int64_t{0};
    const std::int64_t up = (room + window.stride - 1) / window.stride + 1;
    const bool is_padding_alone = (up - 1) * window.stride >= size + window.pad;
    return is_padding_alone ? up - 1 : up;
  };
  const tensor::Shape& in = shape_of(value);
  const std::int64_t rows = outputs(in.h);
  const std::int64_t columns = outputs(in.w);
  Window wider = window;
  while (!gives(wider, value, rows, columns) && wider.pad_extra - window.pad_extra < window.stride)
    ++wider.pad_extra;
  const bool counts = attributes.integer("count_include_pad", 0) != 0;
  if (wider.pad_extra != window.pad_extra && (counts || !gives(wider, value, rows, columns)))
    refuse(model_, node,
           fmt::format("its ceil_mode gives a window that is not whole at {}x{}, which is not "
                       "known {}",
                       in.h, in.w, counts ? "with count_include_pad" : "of these"));
  window = wider;
}

int Translator::place_window(const Node& node, int built, const Window& window) {
  builder_.node(built).pad_extra = window.pad_extra;
  return place(node, built);
}

void Translator::conv(const Node& node) {
  const NodeAttributes attributes(
      model_, node, {"kernel_shape", "strides", "pads", "dilations", "group", "auto_pad"});
  const Value x = padded_image(node, attributes);
  const Tensor& weights = weight(node, 1, 4);
  const int kernel = equal(node, "window's sides", {weights.dims[2], weights.dims[3]}, 2);
  const std::vector<std::int64_t> of_weights{kernel, kernel};
  const auto said = attributes.integers("kernel_shape", of_weights);
  if (said != of_weights)
    refuse(model_, node,
           fmt::format("its kernel_shape is {}, and its weights have {}", fmt::join(said, ", "),
                       fmt::join(of_weights, ", ")));
  const Window window = window_of(node, attributes, x, kernel);
  const std::int64_t groups = attributes.integer("group", 1);
  if (groups < 1 || groups > weights.dims[0])
    refuse(model_, node, fmt::format("its group {} is out of range", groups));
  const bool bias = has_input(node, 2) && !constants_.is_made_of_zeros(node.inputs[2]);
  if (bias) weight(node, 2, 1);
  const std::string name = weighted_name(node, "conv", {".weight", ".bias"});
  const int made = builder_.conv(x.node, name, weights.dims[0], window.kernel, window.stride,
                                 window.pad, bias, kInit, static_cast<int>(groups));
  give(node, {place_window(node, made, window)});
  take(node, 1, name + ".weight");
  if (bias) take(node, 2, name + ".bias");
}

void Translator::max_pool(const Node& node) {
  const NodeAttributes attributes(
      model_, node,
      {"kernel_shape", "strides", "pads", "dilations", "auto_pad", "ceil_mode", "storage_order"});
  const Value x = padded_image(node, attributes);
  Window window = window_of(node, attributes, x, kernel_of(node, attributes));
  if (x.form == Form::kPadded && builder_.node(x.node).op != graph::Op::kRelu)
    refuse(model_, node, "zeros are padded before it, which is known after a Relu alone");
  round_up(node, attributes, x, window);
  const int made = builder_.max_pool(x.node, window.kernel, window.stride, window.pad);
  give(node, {place_window(node, made, window)});
}

void Translator::average_pool(const Node& node) {
  const NodeAttributes attributes(model_, node,
                                  {"kernel_shape", "strides", "pads", "dilations", "auto_pad",
                                   "ceil_mode", "count_include_pad"});
  const Value x = image(node, 0);
  Window window = window_of(node, attributes, x, kernel_of(node, attributes));
  round_up(node, attributes, x, window);
  const bool counts =
      (window.pad > 0 || window.pad_extra > 0) && attributes.integer("count_include_pad", 0) != 0;
  if (window.kernel == 1 && window.stride == 1) return give(node, x);
  const int made = builder_.avg_pool(x.node, window.kernel, window.stride, window.pad, counts);
  give(node, {place_window(node, made, window)});
}

void Translator::global_average_pool(const Node& node) {
  const NodeAttributes attributes(model_, node, {});
  give(node, {over_rows_and_columns(node, image(node, 0), false)});
}

void Translator::global_max_pool(const Node& node) {
  const NodeAttributes attributes(model_, node, {});
  give(node, {over_rows_and_columns(node, image(node, 0), true)});
}

int Translator::over_rows_and_columns(const Node& node, Value value, bool maximum) {
  if (!maximum) return place(node, builder_.global_avg_pool(value.node));
  const tensor::Shape& in = shape_of(value);
  if (in.h != in.w)
    refuse(model_, node,
           fmt::format("takes the maximum of {}x{}, which must be square", in.h, in.w));
  return place(node, builder_.max_pool(value.node, static_cast<int>(in.h), 1));
}

}  // namespace coxswain::onnx
