#include "trainer/backend/loss.h"

#include "trainer/backend/reference/operations.h"

namespace coxswain::backend::reference {

namespace {

void forward(const Work& w) {
  *w.sums = softmax_cross_entropy(w.in, w.node.label_smoothing, w.x(), *w.batch);
}

void backward(const Work& w) {
  softmax_cross_entropy_gradient(w.in, w.node.label_smoothing, w.x(), *w.batch, w.out);
}

}  // namespace

const Loops kSoftmaxCrossEntropy{.forward = forward, .backward_data = backward};

}  // namespace coxswain::backend::reference
