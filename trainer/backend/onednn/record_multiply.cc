#include <algorithm>
#include <array>

#include "trainer/backend/onednn/operations.h"
#include "trainer/backend/onednn/vector_loops.h"

namespace coxswain::backend::onednn {

namespace {

// An order in which `channels` of a block lie side by side, and rows and columns around them.
struct Order {
  Tag tag;
  std::int64_t channels;  // 0: all
};
constexpr std::array kOrders{Order{Tag::aBcd16b, 16}, Order{Tag::aBcd8b, 8}, Order{Tag::acdb, 0}};

Order order_of(const Desc& like) {
  const auto found = std::ranges::find_if(kOrders, [&](const Order& order) {
    return Desc(dims_of(like), type_of(like), order.tag) == like;
  });
  return found == kOrders.end() ? kOrders.back() : *found;
}

Tensor ordered(Plan& plan, const Tensor& tensor, Type type, const Order& order) {
  return converted(plan, tensor, {dims_of(tensor.desc), type, order.tag});
}

Planes planes_of(const Desc& desc, const Order& order) {
  const Dims dims = padded_dims(desc);
  const std::int64_t channels = order.channels == 0 ? dims[1] : order.channels;
  return {.count = dims[0] * dims[1] / channels, .cells = dims[2] * dims[3], .channels = channels};
}

// values * factors, which have the same shape or one row and column.
Tensor product(Plan& plan, const Tensor& of, const Tensor& by, Type type) {
  const Order order = order_of(of.desc);
  const Tensor values = ordered(plan, of, type, order);
  const Tensor factors = ordered(plan, by, type, order);
  const Tensor result = plan.tape.new_tensor(values.desc);
  const Planes planes = planes_of(values.desc, order);
  const bool of_cells = dims_of(factors.desc) == dims_of(values.desc);
  plan.tape.add({values.buffer, factors.buffer, result.buffer},
                [=, data_type = data_type_of(values.desc)](const Addresses& addresses) {
                  multiply(data_type, addresses.bytes(result.buffer),
                           addresses.bytes(values.buffer), addresses.bytes(factors.buffer), planes,
                           of_cells);
                });
  return result;
}

// Of each sample and channel the sum of a * b over rows and columns.
Tensor sum_of_products(Plan& plan, const Tensor& a, const Tensor& b, Type type) {
  const Order order = order_of(a.desc);
  const Tensor left = ordered(plan, a, type, order);
  const Tensor right = ordered(plan, b, type, order);
  const Dims dims = dims_of(left.desc);
  const Tensor result = plan.tape.new_tensor({{dims[0], dims[1], 1, 1}, type, order.tag});
  const Planes planes = planes_of(left.desc, order);
  plan.tape.add({left.buffer, right.buffer, result.buffer},
                [=, data_type = data_type_of(left.desc)](const Addresses& addresses) {
                  sum_products(data_type, addresses.bytes(result.buffer),
                               addresses.bytes(left.buffer), addresses.bytes(right.buffer), planes);
                });
  return result;
}

void forward(Plan& plan, const Step& step) {
  const Type type = to_type(plan.node(step.node).type);
  deliver(plan, step.writes[0],
          product(plan, plan.edge(step.reads[0]), plan.edge(step.reads[1]), type));
}

// Reads the other input and d(output).
void backward(Plan& plan, const Step& step) {
  const graph::Edge& to = plan.program.edges[static_cast<std::size_t>(step.writes[0])];
  const Tensor other = plan.edge(step.reads[0]);
  const Tensor d_y = plan.edge(step.reads[1]);
  const bool sums = to_dims(to.shape) != dims_of(d_y.desc);
  const Type type = to_type(to.type);
  deliver(plan, step.writes[0],
          sums ? sum_of_products(plan, other, d_y, type) : product(plan, d_y, other, type));
}

}  // namespace

const Recorder kMultiply{.forward = forward, .backward_data = backward};

}  // namespace coxswain::backend::onednn
