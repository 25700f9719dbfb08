#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstdint>

#include "trainer/graph/graph.h"
#include "trainer/optim/update_rule.h"
#include "trainer/tensor/data_type.h"
#include "trainer/tensor/shape.h"

// Kernels of our own. Each function enqueues and returns. Pointers are the device's; activations
// are (N, H, W, C), the arrays of one call of one type unless it says otherwise. Whatever the type,
// what is computed is a float, which is rounded once as it is written. Sums are made in double and
// in an order that the shapes alone fix: no multiprocessor count and no timing changes a bit.
namespace coxswain::backend::cuda {

using graph::Activation;
using tensor::Shape;

// Value. Where work is enqueued.
struct Queue {
  cudaStream_t stream = nullptr;
  int multiprocessors = 1;
};

// View. Elements on the device.
struct Array {
  void* data = nullptr;
  tensor::DataType type = tensor::DataType::kFloat32;

  template <class Element>
  Element* as() const {
    return static_cast<Element*>(data);
  }
};

// What a captured step reads anew each time it is replayed, beside images and labels.
struct StepInputs {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  std::int64_t valid = 0;
  double global_count = 1;
};

// View. What each row is to be, on the device: of one class, or of two by their shares.
struct Targets {
  const std::int32_t* labels = nullptr;
  const std::int32_t* partners = nullptr;
  const float* shares = nullptr;  // of the label; 1: the partner is nothing
};

// Of the loss; LossSums of executable.h.
struct DeviceSums {
  double loss = 0;
  std::int64_t correct = 0;
  std::int64_t correct_top5 = 0;
  std::int64_t samples = 0;
};

// elementwise.cu
void fill(const Queue& queue, float* out, float value, std::int64_t count);
void add_into(const Queue& queue, float* into, const float* from, std::int64_t count);
void scale(const Queue& queue, float* values, const float* factor, std::int64_t count);
// into = kept * into + factor * from
void combine(const Queue& queue, float* into, float kept, const float* from, float factor,
             std::int64_t count);
void activate(const Queue& queue, Activation activation, const Array& x, const Array& y,
              std::int64_t count);
void activate_backward(const Queue& queue, Activation activation, const Array& y, const Array& d_y,
                       const Array& d_x, std::int64_t count);
void gelu(const Queue& queue, const Array& x, const Array& y, std::int64_t count);
void gelu_backward(const Queue& queue, const Array& x, const Array& d_y, const Array& d_x,
                   std::int64_t count);
// Sigmoid, SiLU, HardSwish, HardSigmoid and Clip. `given` is x or y, as the operation's row says.
struct Curve {
  graph::Op op = graph::Op::kSigmoid;
  float low = 0;
  float high = 0;
};
void curve(const Queue& queue, const Curve& f, const Array& x, const Array& y, std::int64_t count);
void curve_backward(const Queue& queue, const Curve& f, const Array& given, const Array& d_y,
                    const Array& d_x, std::int64_t count);
// y += bias, floats, of (rows, channels), then the activation; a null bias is none.
void add_bias(const Queue& queue, const Array& y, const float* bias, Activation activation,
              std::int64_t rows, std::int64_t channels);
// out = (parts[0] + parts[1] + ...), then activation(out), or with `y` times its derivative at y.
struct Parts {
  static constexpr int kMost = 8;
  std::array<const void*, kMost> from = {};  // of out's type
  int count = 0;
};
void join(const Queue& queue, const Parts& parts, Activation activation, const Array& y,
          const Array& out, std::int64_t count);
// y = a * b; b is (N, C) where it is not (N, pixels, C).
struct Factors {
  std::int64_t pixels = 1;
  std::int64_t channels = 1;
  bool of_pixels = false;
};
void multiply(const Queue& queue, const Factors& by, const Array& a, const Array& b, const Array& y,
              std::int64_t count);
// out (N, C) = a * b summed over pixels.
void sum_products(const Queue& queue, const Factors& by, const Array& a, const Array& b,
                  const Array& out, std::int64_t count);
// parts[into] += parts[from] for each pair, in order; part p are the floats at first + p * stride.
struct Additions {
  static constexpr int kMost = 256;
  struct Pair {
    std::int32_t into = 0;
    std::int32_t from = 0;
  };
  std::array<Pair, kMost> pairs = {};
  int count = 0;
};
void add_in_order(const Queue& queue, const Additions& additions, float* first, std::int64_t stride,
                  std::int64_t count);

// layout.cu
// bytes (N, H, W, C) and what each value of a channel becomes, (C, 256).
void normalise(const Queue& queue, const std::uint8_t* bytes, const float* table,
               std::int64_t pixels, std::int64_t channels, const Array& out);
// Of another type; one of the two is float32.
void convert(const Queue& queue, const Array& from, const Array& to, std::int64_t count);
// (outer, a, b) -> (outer, b, a)
void transpose(const Queue& queue, const Array& from, const Array& to, std::int64_t outer,
               std::int64_t a, std::int64_t b);
// to (pixels, to.all)[to.first...] = from (pixels, from.all)[from.first...], `channels` of each.
struct Channels {
  std::int64_t all = 0;
  std::int64_t first = 0;
};
void copy_channels(const Queue& queue, const Array& x, const Channels& from, const Array& y,
                   const Channels& to, std::int64_t channels, std::int64_t pixels);

// pool.cu
struct Window {
  Shape in;
  Shape out;
  int kernel = 1;
  int stride = 1;
  int pad = 0;
  bool counts_padding = false;  // in an average
};
void max_pool(const Queue& queue, const Window& window, const Array& x, const Array& y);
void max_pool_backward(const Queue& queue, const Window& window, const Array& x, const Array& d_y,
                       const Array& d_x);
void average_pool(const Queue& queue, const Window& window, const Array& x, const Array& y);
void average_pool_backward(const Queue& queue, const Window& window, const Array& d_y,
                           const Array& d_x);

// channel_sums.cu
// Sums over rows of (rows, channels). `partial` has room for partial_sums() doubles.
std::int64_t partial_sums(std::int64_t rows, std::int64_t channels);
void sum_channels(const Queue& queue, const Array& x, std::int64_t rows, std::int64_t channels,
                  double* partial, float* sums);

// norm.cu
struct Norm {
  std::int64_t images = 0;
  std::int64_t rows = 0;  // images * H * W
  std::int64_t channels = 0;
  float epsilon = 0;
  Activation activation = Activation::kNone;
};
// mean and 1 / sqrt(variance + epsilon) of each channel, (2, C), then the number of rows that they
// are of, kept for backward. running_* are the gradient slots that get the batch's values.
constexpr std::int64_t norm_values(std::int64_t channels) { return 2 * channels + 1; }
void norm_moments(const Queue& queue, const Norm& norm, const Array& x, double* partial,
                  double* moments, float* running_mean, float* running_variance);
// What this rank gives to the others, for norms over the rows of all (JoinedMoments): images,
// means, biased variances, norm_values() floats.
void norm_own_moments(const Queue& queue, const Norm& norm, const double* moments, float* own);
// The same of all ranks, from what each gave, in rank order.
void norm_join_moments(const Queue& queue, const Norm& norm, const float* all, int ranks,
                       double* moments, float* running_mean, float* running_variance);
void norm_running_moments(const Queue& queue, const Norm& norm, const float* running_mean,
                          const float* running_variance, double* moments);
// gamma may be null: 1.
void norm_forward(const Queue& queue, const Norm& norm, const Array& x, const double* moments,
                  const float* gamma, const float* beta, const Array& y);
// `sums` are d(beta) and d(gamma), (2, C) doubles. d_gamma may be null.
void norm_gradients(const Queue& queue, const Norm& norm, const Array& x, const Array& y,
                    const Array& d_y, const double* moments, double* partial, double* sums,
                    float* d_gamma, float* d_beta);
void norm_own_sums(const Queue& queue, const Norm& norm, const double* sums, float* own);
void norm_join_sums(const Queue& queue, const Norm& norm, const float* all, int ranks,
                    double* sums);
// By the sums of all rows that the moments are of.
void norm_backward(const Queue& queue, const Norm& norm, const Array& x, const Array& y,
                   const Array& d_y, const double* moments, const double* sums, const float* gamma,
                   const Array& d_x);

// dropout.cu
void dropout(const Queue& queue, const StepInputs* inputs, const std::int64_t* sample_ids,
             std::uint32_t stream, float rate, const Shape& shape, const Array& from,
             const Array& to);

// loss.cu
// `rows` has room for (2, N) doubles: each row's loss, and how many classes come before its label.
void softmax_cross_entropy(const Queue& queue, const StepInputs* inputs, const Targets& targets,
                           std::int64_t n, std::int64_t classes, float smoothing,
                           const float* logits, double* rows, DeviceSums* sums);
void softmax_cross_entropy_gradient(const Queue& queue, const StepInputs* inputs,
                                    const Targets& targets, std::int64_t n, std::int64_t classes,
                                    float smoothing, const float* logits, const Array& d_logits);
void write_sums(const Queue& queue, const DeviceSums* sums, float* control);

// update.cu
// What update() is given anew each step, and what the device makes of it.
struct UpdateInputs {
  float lr = 0;
  float momentum = 0;
  float statistic_parts = 1;
};
struct Verdict {
  std::int32_t not_finite = 0;  // a gradient is not; zero again after each decision
  std::int32_t updates = 0;     // this step does
  double squares = 0;           // of gradients, summed; where they are clipped by their norm
  optim::UpdateStep step;
};
// What the optimizer does with 16 floats of the flat buffer.
enum class Change : std::uint8_t { kNothing, kStatistic, kDecayed, kUndecayed, kMatrix };
constexpr std::int64_t kGranule = 16;  // floats: segments begin at multiples of it
struct FlatBuffer {
  float* weights = nullptr;
  const float* gradients = nullptr;
  std::array<float*, optim::kMostSlots> slots = {};  // of the formula
  float* average = nullptr;                          // of the weights; null: none is kept
  const Change* changes = nullptr;                   // one a granule
  std::int64_t size = 0;
  // Where a step of a tensor depends on all of it:
  const std::int32_t* tensor_of = nullptr;  // one a granule; -1: of none
  float* rates = nullptr;                   // one a tensor; null: all have the step's
  float* directions = nullptr;              // Muon's, of matrices
};
void find_not_finite(const Queue& queue, const float* gradients, std::int64_t size,
                     Verdict* verdict);
// The squares of what is trained, in an order that follows from the size; `partial` has room for
// partial_squares() doubles.
std::int64_t partial_squares(std::int64_t size);
void sum_squares(const Queue& queue, const FlatBuffer& buffer, double* partial, Verdict* verdict);
// Writes the verdict into both control segments and counts the update.
void decide(const Queue& queue, const UpdateInputs* inputs, float clip_norm, float* control_sums,
            float* control_weights, Verdict* verdict);
void update(const Queue& queue, const optim::UpdateRule& rule, const Verdict* verdict,
            const FlatBuffer& buffer);

// layerwise.cu
// A tensor whose step depends on all of it, in pieces that are summed by a block each. Sums are
// made in an order that follows from the tensor's size.
struct RatedTensor {
  std::int32_t first_piece = 0;
  std::int32_t last_piece = 0;
  bool is_weight = false;
  float longer_side = 0;  // of a matrix
};
struct Piece {
  std::int64_t first = 0;  // float of the buffer
  std::int64_t last = 0;
};
struct RatedTensors {
  const RatedTensor* tensors = nullptr;
  const Piece* pieces = nullptr;
  std::int64_t count = 0;
  std::int64_t num_pieces = 0;
  double* partial = nullptr;  // room for kSumsOfPiece a piece
};
constexpr std::int64_t kSumsOfPiece = 64;
// buffer.rates of LARS, or of LAMB once it has its moments.
void find_rates(const Queue& queue, const optim::UpdateRule& rule, const Verdict* verdict,
                const FlatBuffer& buffer, const RatedTensors& tensors);
// LAMB's step, once it has its rates.
void follow_lamb(const Queue& queue, const optim::UpdateRule& rule, const Verdict* verdict,
                 const FlatBuffer& buffer);
// Muon's directions, of norm 1, and its step, once they are orthogonal.
void find_directions(const Queue& queue, const optim::UpdateRule& rule, const Verdict* verdict,
                     const FlatBuffer& buffer, const RatedTensors& tensors);
void follow_muon(const Queue& queue, const optim::UpdateRule& rule, const Verdict* verdict,
                 const FlatBuffer& buffer, const RatedTensors& tensors);

}  // namespace coxswain::backend::cuda
