#include "trainer/backend/onednn/record_lanes.h"

#include "trainer/backend/onednn/lanes_pool.h"

namespace coxswain::backend::onednn {

namespace {

Tensor in_lanes(Plan& plan, const Tensor& edge) {
  const Dims dims = dims_of(edge.desc);
  return converted(plan, edge,
                   lanes_order({dims[0], dims[1], dims[2], dims[3]}, compute_type(plan.program)));
}

float* data_of(const Tensor& tensor, const Addresses& addresses) {
  if (tensor.buffer >= 0) return addresses.at<float>(tensor.buffer);
  return static_cast<float*>(tensor.memory.get_data_handle());
}

std::vector<int> arena_buffers(std::initializer_list<Tensor> tensors) {
  std::vector<int> buffers;
  for (const Tensor& tensor : tensors) {
    if (tensor.buffer >= 0) buffers.push_back(tensor.buffer);
  }
  return buffers;
}

Tensor canonical_weights(Plan& plan, const Node& node) {
  const Dims dims = conv_weight_dims(plan, node);
  return converted(plan, product_weights(plan, node, dims), plain(dims, Type::f32));
}

Tensor new_packed(Plan& plan, const LanesConvolution& conv) {
  return plan.tape.new_tensor(plain({lanes_packed_bytes(conv)}, Type::u8));
}

LanesPool lanes_pool(const Plan& plan, const Node& node, const Desc& source) {
  const tensor::Shape& input = plan.input_of(node).shape;
  const std::int64_t planes = padded_dims(source)[0] / lanes_of(data_type_of(source)) * input.c;
  return {.planes = planes, .in_height = input.h, .in_width = input.w, .kernel = node.kernel};
}

}  // namespace

void record_lanes_forward(Plan& plan, const Step& step, const LanesConvolution& conv) {
  const Node& node = plan.node(step.node);
  const Tensor x = in_lanes(plan, plan.edge(node.inputs[0]));
  const Tensor weights = canonical_weights(plan, node);
  const Tensor packed = new_packed(plan, conv);
  const Tensor y = plan.tape.new_tensor(lanes_order(node.shape, compute_type(plan.program)));
  const float* bias = node.bias ? weights_of(plan, segment_of(plan, node, "bias")) : nullptr;
  const DataType type = data_type_of(y.desc);
  const bool relu = node.activation == graph::Activation::kRelu;
  plan.tape.add(arena_buffers({x, weights, packed, y}), [=, taps = lanes_taps(conv, type)](
                                                            const Addresses& addresses) {
    const LanesFilter filter{.weights = data_of(weights, addresses),
                             .bias = bias,
                             .taps = taps,
                             .packed = addresses.bytes(packed.buffer),
                             .relu = relu};
    lanes_forward(conv, type, addresses.bytes(x.buffer), filter, addresses.bytes(y.buffer));
  });
  if (node.activation == graph::Activation::kTanh) record_tanh(plan, y);
  deliver(plan, step.writes[0], y);
}

void record_lanes_weights(Plan& plan, const Step& step, const LanesConvolution& conv) {
  const Node& node = plan.node(step.node);
  const Tensor x = in_lanes(plan, plan.edge(step.reads[0]));
  const Tensor d_y = in_lanes(plan, plan.edge(step.reads[1]));
  const Dims dims = conv_weight_dims(plan, node);
  const Tensor stored = stored_gradients(plan, segment_of(plan, node, "weight"), dims);
  const bool direct = stored.desc == plain(dims, Type::f32);
  const Tensor gradient = direct ? stored : plan.tape.new_tensor(plain(dims, Type::f32));
  float* bias = node.bias ? gradients_of(plan, segment_of(plan, node, "bias")) : nullptr;
  const DataType type = data_type_of(x.desc);
  plan.tape.add(arena_buffers({x, d_y, gradient}), [=](const Addresses& addresses) {
    lanes_backward_weights(conv, type, addresses.bytes(x.buffer), addresses.bytes(d_y.buffer),
                           data_of(gradient, addresses), bias);
  });
  if (!direct) copy(plan, gradient, stored);
}

void record_lanes_data(Plan& plan, const Step& step, const LanesConvolution& conv) {
  const Node& node = plan.node(step.node);
  const Tensor d_y = in_lanes(plan, plan.edge(step.reads[0]));
  const Tensor weights = canonical_weights(plan, node);
  const Tensor packed = new_packed(plan, conv);
  const Tensor d_x =
      plan.tape.new_tensor(lanes_order(plan.input_of(node).shape, compute_type(plan.program)));
  const DataType type = data_type_of(d_x.desc);
  plan.tape.add(arena_buffers({d_y, weights, packed, d_x}), [=](const Addresses& addresses) {
    lanes_backward_data(conv, type, addresses.bytes(d_y.buffer), data_of(weights, addresses),
                        addresses.bytes(packed.buffer), addresses.bytes(d_x.buffer));
  });
  deliver(plan, step.writes[0], d_x);
}

bool pools_in_lanes(const Node& node) {
  return node.op == graph::Op::kMaxPool && node.pad == 0 && node.pad_extra == 0 &&
         node.kernel == node.stride;
}

Tensor record_lanes_pool_forward(Plan& plan, const Step& step) {
  const Node& node = plan.node(step.node);
  const Tensor& x = plan.edge(node.inputs[0]);
  const LanesPool pool = lanes_pool(plan, node, x.desc);
  const Tensor y = plan.tape.new_tensor(lanes_order(node.shape, type_of(x.desc)));
  const Tensor places = plan.tape.new_tensor(with_type(y.desc, Type::u8));
  const DataType type = data_type_of(x.desc);
  plan.tape.add({x.buffer, y.buffer, places.buffer}, [=](const Addresses& addresses) {
    lanes_pool_forward(pool, type, addresses.bytes(x.buffer), addresses.bytes(y.buffer),
                       addresses.at<std::uint8_t>(places.buffer));
  });
  deliver(plan, step.writes[0], y);
  return places;
}

void record_lanes_pool_backward(Plan& plan, const Step& step, const Tensor& places) {
  const Node& node = plan.node(step.node);
  const Desc source = plan.edge(node.inputs[0]).desc;
  const LanesPool pool = lanes_pool(plan, node, source);
  const Tensor d_y =
      converted(plan, plan.edge(step.reads.back()), lanes_order(node.shape, type_of(source)));
  const Tensor d_x = plan.tape.new_tensor(source);
  const DataType type = data_type_of(source);
  plan.tape.add({d_y.buffer, places.buffer, d_x.buffer}, [=](const Addresses& addresses) {
    lanes_pool_backward(pool, type, addresses.bytes(d_y.buffer),
                        addresses.at<std::uint8_t>(places.buffer), addresses.bytes(d_x.buffer));
  });
  deliver(plan, step.writes[0], d_x);
}

}  // namespace coxswain::backend::onednn
