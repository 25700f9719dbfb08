#include <algorithm>
#include <cmath>
#include <numbers>

#include "trainer/onnx/translator.h"

// Activations, some of which are several operations in ONNX, and what joins branches.
namespace coxswain::onnx {

namespace {

bool is_near(double a, double b) { return std::abs(a - b) <= 1e-4 * std::abs(b); }

}  // namespace

void Translator::relu(const Node& node) {
  const NodeAttributes attributes(model_, node, {});
  const Value x = value(node, 0);
  give(node, {place(node, builder_.relu(x.node)), x.flat});
}

void Translator::tanh(const Node& node) {
  const NodeAttributes attributes(model_, node, {});
  const Value x = value(node, 0);
  give(node, {place(node, builder_.tanh(x.node)), x.flat});
}

void Translator::gelu(const Node& node) {
  const NodeAttributes attributes(model_, node, {"approximate"});
  if (attributes.text("approximate", "none") != "none")
    refuse(model_, node, "its approximate must be none");
  const Value x = value(node, 0);
  give(node, {place(node, builder_.gelu(x.node)), x.flat});
}

void Translator::sigmoid(const Node& node) {
  const NodeAttributes attributes(model_, node, {});
  const Value x = value(node, 0);
  give(node, {x.node, x.flat, Form::kSigmoid});
}

void Translator::hard_sigmoid(const Node& node) {
  const NodeAttributes attributes(model_, node, {"alpha", "beta"});
  const Value x = value(node, 0);
  if (!is_near(attributes.real("alpha", 0.2F), 1.0 / 6) ||
      !is_near(attributes.real("beta", 0.5F), 0.5))
    refuse(model_, node, "its alpha and beta must be 1/6 and 1/2");
  give(node, {x.node, x.flat, Form::kHardSigmoid});
}

void Translator::hard_swish(const Node& node) {
  const NodeAttributes attributes(model_, node, {});
  const Value x = value(node, 0);
  give(node, {place(node, builder_.hard_swish(x.node)), x.flat});
}

// An attribute in older opsets, an input in newer ones.
std::optional<float> Translator::bound(const Node& node, const NodeAttributes& attributes,
                                       std::string_view name, std::size_t index) const {
  if (attributes.has(name)) return attributes.real(name, 0);
  if (!has_input(node, index)) return std::nullopt;
  const auto value = constants_.scalar(node.inputs[index]);
  if (!value) refuse(model_, node, "clips at what is no constant number");
  return static_cast<float>(*value);
}

void Translator::clip(const Node& node) {
  const NodeAttributes attributes(model_, node, {"min", "max"});
  const Value given = any_value(node, 0);
  const Value x = given.form == Form::kPlusThree ? given : value(node, 0);
  const auto low = bound(node, attributes, "min", 1);
  const auto high = bound(node, attributes, "max", 2);
  if (given.form == Form::kPlusThree && (low != 0.0F || high != 6.0F))
    refuse(model_, node, "adds 3 before it, which is known in a hard sigmoid alone");
  if (given.form == Form::kPlusThree) return give(node, {x.node, x.flat, Form::kUpToSix});
  if (low == 0.0F && !high) return give(node, {place(node, builder_.relu(x.node)), x.flat});
  if (!low || !high || !std::isfinite(*low) || !std::isfinite(*high))
    refuse(model_, node, "must clip at both ends");
  give(node, {place(node, builder_.clip(x.node, *low, *high)), x.flat});
}

void Translator::concat(const Node& node) {
  const NodeAttributes attributes(model_, node, {"axis"});
  const std::int64_t axis = attributes.integer("axis", 1);
  std::vector<int> parts;
  const bool flat = value(node, 0).flat;
  if (axis != 1 && axis != (flat ? -1 : -3)) refuse(model_, node, "its axis must be 1, channels");
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const Value part = value(node, i);
    if (part.flat != flat) refuse(model_, node, "joins images and what has no rows and columns");
    parts.push_back(columns(node, part).node);
  }
  if (parts.size() == 1) return give(node, {parts.front(), flat});
  give(node, {place(node, builder_.concat(std::move(parts))), flat});
}

// Before opset 20 Gelu is x * (1 + erf(x / sqrt(2))) * 0.5, in either order.
bool Translator::multiply_gelu(const Node& node, Value a, Value b) {
  if (a.form == Form::kOnePlusErf) std::swap(a, b);
  if (b.form != Form::kOnePlusErf || a.node != b.node) return false;
  if (a.form == Form::kScaled && is_near(a.factor, 0.5)) {
    give(node, {place(node, builder_.gelu(a.node)), a.flat});
    return true;
  }
  if (a.form != Form::kWhole) return false;
  a.form = Form::kTwiceGelu;
  give(node, a);
  return true;
}

// SiLU and hard-swish, of x and its sigmoid.
bool Translator::multiply_self(const Node& node, Value a, Value b) {
  if (a.form != Form::kWhole) std::swap(a, b);
  if (a.form != Form::kWhole || a.node != b.node) return false;
  if (b.form == Form::kUpToSix) {
    give(node, {a.node, a.flat, Form::kSixTimes});
    return true;
  }
  if (b.form != Form::kSigmoid && b.form != Form::kHardSigmoid) return false;
  const bool hard = b.form == Form::kHardSigmoid;
  give(node, {place(node, hard ? builder_.hard_swish(a.node) : builder_.silu(a.node)), a.flat});
  return true;
}

// Of the same shape, or of images by a number for each channel.
void Translator::multiply_both(const Node& node) {
  Value a = of_any_order(node, 0);
  Value b = of_any_order(node, 1);
  if (a.flat != b.flat) refuse(model_, node, "multiplies images and what has no rows and columns");
  if (shape_of(a).h * shape_of(a).w == 1 && shape_of(b) != shape_of(a)) std::swap(a, b);
  const bool is_gate = !b.flat && shape_of(b).h * shape_of(b).w == 1;
  const bool flattens = a.flat && shape_of(a) != shape_of(b);
  if ((!is_gate && is_last(a) != is_last(b)) || (flattens && is_last(a)))
    refuse(model_, node, "multiplies what has its channels first by what has them last");
  if (flattens) {
    a = columns(node, a);
    b = columns(node, b);
  }
  a.node = place(node, builder_.multiply(a.node, b.node));
  give(node, a);
}

// A sixth of six times a hard sigmoid or hard-swish.
bool Translator::scale_part(const Node& node, Value x, double factor) {
  if ((x.form != Form::kUpToSix && x.form != Form::kSixTimes) || !is_near(factor, 1.0 / 6))
    return false;
  if (x.form == Form::kUpToSix) {
    give(node, {x.node, x.flat, Form::kHardSigmoid});
  } else {
    give(node, {place(node, builder_.hard_swish(x.node)), x.flat});
  }
  return true;
}

void Translator::multiply(const Node& node) {
  const NodeAttributes attributes(model_, node, {});
  if (is_value(node, 0) && is_value(node, 1)) {
    const Value a = any_value(node, 0);
    const Value b = any_value(node, 1);
    if (multiply_gelu(node, a, b) || multiply_self(node, a, b)) return;
    return multiply_both(node);
  }
  const std::size_t of_value = is_value(node, 0) ? 0 : 1;
  Value x = any_value(node, of_value);
  const auto factor = constants_.scalar(input_name(node, 1 - of_value));
  if (!factor && (scale_layer(node, 1 - of_value) || scale_channels(node, 1 - of_value))) return;
  if (!factor)
    refuse(model_, node, "multiplies by what is no constant number, nor one for each channel");
  if (x.form == Form::kTwiceGelu && is_near(*factor, 0.5))
    return give(node, {place(node, builder_.gelu(x.node)), x.flat});
  if (scale_part(node, x, *factor)) return;
  if (x.form != Form::kWhole) refuse(model_, node, "multiplies, which is known in a Gelu alone");
  give(node, {x.node, x.flat, Form::kScaled, *factor});
}

void Translator::divide(const Node& node) {
  const NodeAttributes attributes(model_, node, {});
  const auto divisor = constants_.scalar(input_name(node, 1));
  if (!divisor || *divisor == 0) refuse(model_, node, "divides by what is no constant number");
  if (scale_part(node, any_value(node, 0), 1 / *divisor)) return;
  const Value x = value(node, 0);
  give(node, {x.node, x.flat, Form::kScaled, 1 / *divisor});
}

void Translator::erf(const Node& node) {
  const NodeAttributes attributes(model_, node, {});
  Value x = any_value(node, 0);
  if (x.form != Form::kScaled || !is_near(x.factor, 1 / std::numbers::sqrt2))
    refuse(model_, node, "known in a Gelu alone");
  x.form = Form::kErf;
  give(node, x);
}

}  // namespace coxswain::onnx
