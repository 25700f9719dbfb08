#include <algorithm>

#include "trainer/backend/onednn/channel_sums.h"
#include "trainer/backend/onednn/plan.h"

namespace coxswain::backend::onednn {

namespace {

TapShape tap_shape(const Plan& plan, const Node& node) {
  const tensor::Shape& input = plan.input_of(node).shape;
  return {.samples = input.n,
          .channels = node.channels,
          .in_height = input.h,
          .in_width = input.w,
          .out_height = node.shape.h,
          .out_width = node.shape.w,
          .kernel = node.kernel,
          .stride = node.stride,
          .pad = node.pad};
}

}  // namespace

bool needs_only_channel_sums(const Plan& plan, const Step& conv_data) {
  const Node& node = plan.node(conv_data.node);
  const Node& input = plan.input_of(node);
  const Desc& d_y = plan.edge(conv_data.reads[0]).desc;
  const bool norm = input.op == graph::Op::kBatchNorm && input.fixed_gamma &&
                    input.activation == graph::Activation::kNone;
  const bool read_there_alone = std::ranges::all_of(plan.program.steps, [&](const Step& step) {
    if (std::ranges::count(step.reads, conv_data.writes[0]) == 0) return true;
    return step.kind == StepKind::kBackwardWeights && step.node == node.inputs[0];
  });
  return norm && read_there_alone && node.groups == 1 && node.kernel <= kMaxTapKernel &&
         node.channels % 16 == 0 && d_y == Desc(to_dims(node.shape), type_of(d_y), Tag::aBcd16b);
}

void record_channel_sums(Plan& plan, const Step& conv_data, float* sums) {
  const Node& node = plan.node(conv_data.node);
  const TapShape shape = tap_shape(plan, node);
  const std::int64_t cells = node.kernel * node.kernel;
  const std::int64_t inputs = plan.input_of(node).shape.c;
  const std::int64_t bytes = node.channels * cells * static_cast<std::int64_t>(sizeof(double));
  const Dims dims = conv_weight_dims(plan, node);
  const Tensor weights = converted(plan, product_weights(plan, node, dims), plain(dims, Type::f32));
  const Tensor d_y = plan.edge(conv_data.reads[0]);
  const int partial = plan.tape.new_buffer(bytes * kTapChunks);
  const int taps = plan.tape.new_buffer(bytes);
  const DataType type = data_type_of(d_y.desc);
  const auto recorded = [=](const Addresses& addresses) {
    auto* by_tap = addresses.at<double>(taps);
    tap_sums(shape, type, addresses.bytes(d_y.buffer), addresses.at<double>(partial), by_tap);
    const float* w = weights.buffer >= 0
                         ? addresses.at<float>(weights.buffer)
                         : static_cast<const float*>(weights.memory.get_data_handle());
    for (std::int64_t c = 0; c < inputs; ++c) {
      double sum = 0;
      for (std::int64_t k = 0; k < shape.channels; ++k) {
        for (std::int64_t cell = 0; cell < cells; ++cell) {
          const float weight = tensor::round_to(type, w[(k * inputs + c) * cells + cell]);
          sum += static_cast<double>(weight) * by_tap[k * cells + cell];
        }
      }
      sums[c] = static_cast<float>(sum);
    }
  };
  std::vector<int> buffers{d_y.buffer, partial, taps};
  if (weights.buffer >= 0) buffers.push_back(weights.buffer);
  plan.tape.add(buffers, recorded);
}

}  // namespace coxswain::backend::onednn
