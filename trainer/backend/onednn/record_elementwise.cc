#include "trainer/backend/onednn/operations.h"
#include "trainer/backend/onednn/vector_loops.h"

namespace coxswain::backend::onednn {

namespace {

std::int64_t stored_elements(const Desc& desc) {
  return static_cast<std::int64_t>(desc.get_size()) / tensor::size_of(data_type_of(desc));
}

Eltwise eltwise_of(const Node& node) {
  switch (node.op) {
    case graph::Op::kRelu:
      return {dnnl::algorithm::eltwise_relu_use_dst_for_bwd};
    case graph::Op::kTanh:
      return {dnnl::algorithm::eltwise_tanh_use_dst_for_bwd};
    case graph::Op::kSigmoid:
      return {dnnl::algorithm::eltwise_logistic_use_dst_for_bwd};
    case graph::Op::kSilu:
      return {dnnl::algorithm::eltwise_swish, 1};
    case graph::Op::kHardSwish:
      return hard_swish();
    case graph::Op::kHardSigmoid:
      return {dnnl::algorithm::eltwise_clip_v2, -3, 3};
    case graph::Op::kClip:
      return {dnnl::algorithm::eltwise_clip_v2_use_dst_for_bwd, node.low, node.high};
    default:
      return {dnnl::algorithm::eltwise_gelu_erf};
  }
}

void activation_forward(Plan& plan, const Step& step) {
  const Tensor& source = plan.edge(step.reads[0]);
  const EltwiseForward& kernel =
      plan.keep(step.node, eltwise_forward(plan.tape.engine(), eltwise_of(plan.node(step.node)),
                                           source.desc, user_scratchpad()));
  const Tensor output = plan.tape.new_tensor(source.desc);
  plan.tape.add(dnnl::eltwise_forward(kernel), kernel.scratchpad_desc(),
                {{DNNL_ARG_SRC, source}, {DNNL_ARG_DST, output}});
  if (plan.node(step.node).op == graph::Op::kHardSigmoid)
    record_in_place(plan, output, {dnnl::algorithm::eltwise_linear, 1.F / 6, 0.5F});
  deliver(plan, step.writes[0], output);
}

void activation_backward(Plan& plan, const Step& step) {
  const bool from_output = step.reads[0] == step.node;
  const Desc& desc = plan.edge(plan.node(step.node).inputs[0]).desc;
  const EltwiseBackward kernel =
      eltwise_backward(plan.tape.engine(), eltwise_of(plan.node(step.node)), desc,
                       plan.kept_of<EltwiseForward>(step.node), user_scratchpad());
  const Tensor gradient = plan.tape.new_tensor(desc);
  plan.tape.add(
      dnnl::eltwise_backward(kernel), kernel.scratchpad_desc(),
      {{from_output ? DNNL_ARG_DST : DNNL_ARG_SRC, converted(plan, plan.edge(step.reads[0]), desc)},
       {DNNL_ARG_DIFF_DST, converted(plan, plan.edge(step.reads[1]), desc)},
       {DNNL_ARG_DIFF_SRC, gradient}});
  if (plan.node(step.node).op == graph::Op::kHardSigmoid)
    record_in_place(plan, gradient, {dnnl::algorithm::eltwise_linear, 1.F / 6});
  deliver(plan, step.writes[0], gradient);
}

constexpr Recorder kActivation{.forward = activation_forward, .backward_data = activation_backward};

void add(Plan& plan, const Step& step) {
  const Node& node = plan.node(step.node);
  const Desc desc = with_type(plan.edge(step.reads[0]).desc, to_type(node.type));
  const Tensor a = converted(plan, plan.edge(step.reads[0]), desc);
  const Tensor b = converted(plan, plan.edge(step.reads[1]), desc);
  const Tensor sum = output_in_place_of(plan, step.reads[0], desc);
  const DataType type = data_type_of(desc);
  const std::int64_t count = stored_elements(desc);
  const bool relu = node.activation == graph::Activation::kRelu;
  plan.tape.add({a.buffer, b.buffer, sum.buffer}, [=](const Addresses& addresses) {
    add_tensors(type, addresses.bytes(sum.buffer), addresses.bytes(a.buffer),
                addresses.bytes(b.buffer), relu, count);
  });
  if (node.activation == graph::Activation::kTanh) record_tanh(plan, sum);
  deliver(plan, step.writes[0], sum);
}

// Forward and backward: the same row-major bytes under other dimensions.
void flatten(Plan& plan, const Step& step) {
  const Tensor& source = plan.edge(step.reads[0]);
  const graph::Edge& to = plan.program.edges[static_cast<std::size_t>(step.writes[0])];
  const Tensor output = plan.tape.new_tensor(plain(to_dims(to.shape), type_of(source.desc)));
  copy(plan, source,
       plan.tape.view(plain(dims_of(source.desc), type_of(source.desc)), output.buffer));
  deliver(plan, step.writes[0], output);
}

}  // namespace

const Recorder kRelu = kActivation;
const Recorder kTanh = kActivation;
const Recorder kGelu = kActivation;
const Recorder kSigmoid = kActivation;
const Recorder kSilu = kActivation;
const Recorder kHardSwish = kActivation;
const Recorder kHardSigmoid = kActivation;
const Recorder kClip = kActivation;
const Recorder kAdd{.forward = add};
const Recorder kFlatten{.forward = flatten, .backward_data = flatten};

void record_join(Plan& plan, const Step& step) {
  const graph::Edge& edge = plan.program.edges[static_cast<std::size_t>(step.writes[0])];
  const graph::Activation activation = graph::joined_activation(plan.program, step);
  const bool masked = activation != graph::Activation::kNone;
  const Desc desc = with_type(plan.edge(step.node).desc, to_type(edge.type));
  std::vector<int> parts;
  const std::size_t count = step.reads.size() - (masked ? 1 : 0);
  for (std::size_t i = 0; i < count; ++i) {
    parts.push_back(converted(plan, plan.edge(step.reads[i]), desc).buffer);
  }
  const int output = masked ? converted(plan, plan.edge(step.node), desc).buffer : -1;
  const Tensor sum = output_in_place_of(plan, step.reads[0], desc);
  std::vector<int> buffers = parts;
  buffers.push_back(sum.buffer);
  if (masked) buffers.push_back(output);
  const DataType type = data_type_of(desc);
  const std::int64_t elements = stored_elements(desc);
  std::vector<const void*> data(count);  // kept, as a step allocates nothing
  plan.tape.add(buffers, [=](const Addresses& addresses) mutable {
    for (std::size_t i = 0; i < count; ++i) data[i] = addresses.bytes(parts[i]);
    join_gradients(type, addresses.bytes(sum.buffer), data,
                   masked ? addresses.bytes(output) : nullptr, activation, elements);
  });
  deliver(plan, step.writes[0], sum);
}

}  // namespace coxswain::backend::onednn
