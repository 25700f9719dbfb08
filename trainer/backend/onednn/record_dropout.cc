#include "trainer/backend/onednn/dropout_mask.h"
#include "trainer/backend/onednn/operations.h"
#include "trainer/backend/onednn/vector_isa.h"
#include "trainer/backend/onednn/vector_loops.h"
#include "trainer/tensor/philox.h"

namespace coxswain::backend::onednn {

namespace {

// Row-major, the order in which masks are drawn and in which a dense layer reads.
Desc row_major(const Node& node, const Tensor& edge) {
  return plain(to_dims(node.shape), type_of(edge.desc));
}

Tensor record_mask(Plan& plan, const Node& node) {
  const Tensor canonical = plan.tape.new_tensor(plain(to_dims(node.shape), Type::u8));
  const std::uint32_t stream = tensor::stream_of(node.name);
  const float rate = node.rate;
  const std::int64_t samples = node.shape.n;
  const std::int64_t elements = node.shape.per_sample();
  const StepState* state = &plan.state;
  plan.tape.add({canonical.buffer}, [=](const Addresses& addresses) {
    auto* kept = addresses.at<std::uint8_t>(canonical.buffer);
    const Batch& batch = state->batch;
    in_parallel(samples, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n) {
        fill_dropout_mask(
            {.seed = batch.seed,
             .sample = static_cast<std::uint32_t>(batch.sample_ids[static_cast<std::size_t>(n)]),
             .epoch = static_cast<std::uint32_t>(batch.epoch),
             .stream = stream,
             .rate = rate},
            elements, kept + n * elements);
      }
    });
  });
  return canonical;
}

void record_apply(Plan& plan, const Node& node, const Tensor& from, const Tensor& mask,
                  const Tensor& to) {
  const DataType type = data_type_of(to.desc);
  const auto count = static_cast<std::int64_t>(mask.desc.get_size());
  const float scale = 1.F / (1.F - node.rate);
  plan.tape.add({from.buffer, mask.buffer, to.buffer}, [=](const Addresses& addresses) {
    apply_mask(type, addresses.bytes(to.buffer), addresses.bytes(from.buffer),
               addresses.at<std::uint8_t>(mask.buffer), scale, count);
  });
}

void forward(Plan& plan, const Step& step) {
  const Node& node = plan.node(step.node);
  const Tensor source =
      converted(plan, plan.edge(node.inputs[0]), row_major(node, plan.edge(node.inputs[0])));
  const bool own_copy = source.buffer != plan.edge(node.inputs[0]).buffer;
  const Tensor output = own_copy ? source : output_in_place_of(plan, node.inputs[0], source.desc);
  if (plan.program.training) {
    const Tensor& mask = plan.keep(step.node, record_mask(plan, node));
    record_apply(plan, node, source, mask, output);
  } else if (output.buffer != source.buffer) {
    copy(plan, source, output);
  }
  deliver(plan, step.writes[0], output);
}

void backward(Plan& plan, const Step& step) {
  const Node& node = plan.node(step.node);
  const Desc desc = row_major(node, plan.edge(step.reads[0]));
  const Tensor from = converted(plan, plan.edge(step.reads[0]), desc);
  const bool own_copy = from.buffer != plan.edge(step.reads[0]).buffer;
  const Tensor to = own_copy ? from : output_in_place_of(plan, step.reads[0], desc);
  record_apply(plan, node, from, plan.kept_of<Tensor>(step.node), to);
  deliver(plan, step.writes[0], to);
}

}  // namespace

const Recorder kDropout{.forward = forward, .backward_data = backward};

}  // namespace coxswain::backend::onednn
