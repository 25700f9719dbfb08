#pragma once

#include <cstdint>
#include <dnnl.hpp>
#include <string>
#include <utility>
#include <vector>

// What differs between oneDNN 2.6 and 3.x, behind one set of names. Nothing else in the project
// looks at the version.
namespace coxswain::backend::onednn {

using Dims = dnnl::memory::dims;
using Desc = dnnl::memory::desc;
using Tag = dnnl::memory::format_tag;
using Type = dnnl::memory::data_type;

// Value. A window that moves over rows and columns: convolution or pooling.
struct Window {
  Dims kernel;
  Dims strides;
  Dims pad_low;
  Dims pad_high;
};

// Value. The four tensors of a convolution or dense layer; `bias` is empty where there is none. For
// the gradients of weights and data the descriptors stand for those of the gradients.
struct LayerDescs {
  Desc source;
  Desc weights;
  Desc bias;
  Desc output;
};

using ConvForward = dnnl::convolution_forward::primitive_desc;
using ConvWeights = dnnl::convolution_backward_weights::primitive_desc;
using ConvData = dnnl::convolution_backward_data::primitive_desc;
using DenseForward = dnnl::inner_product_forward::primitive_desc;
using DenseWeights = dnnl::inner_product_backward_weights::primitive_desc;
using DenseData = dnnl::inner_product_backward_data::primitive_desc;
using NormForward = dnnl::batch_normalization_forward::primitive_desc;
using NormBackward = dnnl::batch_normalization_backward::primitive_desc;
using PoolForward = dnnl::pooling_forward::primitive_desc;
using PoolBackward = dnnl::pooling_backward::primitive_desc;
using EltwiseForward = dnnl::eltwise_forward::primitive_desc;
using EltwiseBackward = dnnl::eltwise_backward::primitive_desc;

// Value. An element-wise function and its two numbers.
struct Eltwise {
  dnnl::algorithm algorithm;
  float alpha = 0;
  float beta = 0;
};

// Value. How a norm's scale and shift, kept as one array of 2C floats, are handed to the primitive.
struct NormArgument {
  int id;
  Desc desc;
  std::int64_t offset;  // bytes into the array
};

// Whether kernels may use an instruction set: of this CPU, unless ONEDNN_MAX_CPU_ISA names less.
// The bits of a set hold those of the sets that it builds on.
inline bool has_isa(dnnl::cpu_isa isa) {
  const auto wanted = static_cast<unsigned>(isa);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & wanted) == wanted;
}

#if DNNL_VERSION_MAJOR >= 3

inline Dims dims_of(const Desc& desc) { return desc.get_dims(); }
inline Type type_of(const Desc& desc) { return desc.get_data_type(); }
inline bool is_blocked(const Desc& desc) {
  return desc.get_format_kind() == dnnl::memory::format_kind::blocked;
}
inline Dims padded_dims(const Desc& desc) { return desc.get_padded_dims(); }
inline Dims strides_of(const Desc& desc) { return desc.get_strides(); }
inline Dims block_sizes(const Desc& desc) { return desc.get_inner_blks(); }
inline Dims block_dims(const Desc& desc) { return desc.get_inner_idxs(); }

inline ConvForward conv_forward(const dnnl::engine& engine, dnnl::prop_kind kind,
                                dnnl::algorithm algorithm, const LayerDescs& d, const Window& w,
                                const dnnl::primitive_attr& attr) {
  return {engine,   kind,      algorithm, d.source,   d.weights, d.bias,
          d.output, w.strides, w.pad_low, w.pad_high, attr};
}
inline ConvWeights conv_weights(const dnnl::engine& engine, dnnl::algorithm algorithm,
                                const LayerDescs& d, const Window& w, const ConvForward& hint,
                                const dnnl::primitive_attr& attr) {
  return {engine,    algorithm, d.source,   d.weights, d.bias, d.output,
          w.strides, w.pad_low, w.pad_high, hint,      attr};
}
inline ConvData conv_data(const dnnl::engine& engine, dnnl::algorithm algorithm,
                          const LayerDescs& d, const Window& w, const ConvForward& hint,
                          const dnnl::primitive_attr& attr) {
  return {engine,    algorithm, d.source,   d.weights, d.output,
          w.strides, w.pad_low, w.pad_high, hint,      attr};
}

inline DenseForward dense_forward(const dnnl::engine& engine, dnnl::prop_kind kind,
                                  const LayerDescs& d, const dnnl::primitive_attr& attr) {
  return {engine, kind, d.source, d.weights, d.bias, d.output, attr};
}
inline DenseWeights dense_weights(const dnnl::engine& engine, const LayerDescs& d,
                                  const DenseForward& hint, const dnnl::primitive_attr& attr) {
  return {engine, d.source, d.weights, d.bias, d.output, hint, attr};
}
inline DenseData dense_data(const dnnl::engine& engine, const LayerDescs& d,
                            const DenseForward& hint, const dnnl::primitive_attr& attr) {
  return {engine, d.source, d.weights, d.output, hint, attr};
}

inline dnnl::normalization_flags norm_flags(bool global_statistics, bool relu) {
  auto flags = dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;
  if (global_statistics) flags = flags | dnnl::normalization_flags::use_global_stats;
  if (relu) flags = flags | dnnl::normalization_flags::fuse_norm_relu;
  return flags;
}
inline NormForward norm_forward(const dnnl::engine& engine, dnnl::prop_kind kind, const Desc& data,
                                float epsilon, dnnl::normalization_flags flags,
                                const dnnl::primitive_attr& attr) {
  return {engine, kind, data, data, epsilon, flags, attr};
}
inline NormBackward norm_backward(const dnnl::engine& engine, const Desc& data, float epsilon,
                                  dnnl::normalization_flags flags, const NormForward& hint,
                                  const dnnl::primitive_attr& attr) {
  return {engine, dnnl::prop_kind::backward, data, data, data, epsilon, flags, hint, attr};
}
inline std::vector<NormArgument> norm_forward_arguments(std::int64_t channels) {
  const Desc one({channels}, Type::f32, Tag::a);
  return {{DNNL_ARG_SCALE, one, 0}, {DNNL_ARG_SHIFT, one, channels * 4}};
}
// Without the shift: version 3.2 fails to execute when it is given.
inline std::vector<NormArgument> norm_backward_arguments(std::int64_t channels) {
  return {{DNNL_ARG_SCALE, Desc({channels}, Type::f32, Tag::a), 0}};
}
inline std::vector<NormArgument> norm_gradient_arguments(std::int64_t channels) {
  const Desc one({channels}, Type::f32, Tag::a);
  return {{DNNL_ARG_DIFF_SCALE, one, 0}, {DNNL_ARG_DIFF_SHIFT, one, channels * 4}};
}

inline PoolForward pool_forward(const dnnl::engine& engine, dnnl::prop_kind kind,
                                dnnl::algorithm algorithm, const Desc& source, const Desc& output,
                                const Window& w, const dnnl::primitive_attr& attr) {
  return {engine,   kind,   algorithm, source,     output, w.strides,
          w.kernel, {0, 0}, w.pad_low, w.pad_high, attr};
}
inline PoolBackward pool_backward(const dnnl::engine& engine, dnnl::algorithm algorithm,
                                  const Desc& source, const Desc& output, const Window& w,
                                  const PoolForward& hint, const dnnl::primitive_attr& attr) {
  return {engine, algorithm, source,     output, w.strides, w.kernel,
          {0, 0}, w.pad_low, w.pad_high, hint,   attr};
}

// x * min(max(alpha x + beta, 0), 1)
inline Eltwise hard_swish() { return {dnnl::algorithm::eltwise_hardswish, 1.F / 6, 0.5F}; }
inline EltwiseForward eltwise_forward(const dnnl::engine& engine, const Eltwise& f,
                                      const Desc& data, const dnnl::primitive_attr& attr) {
  return {engine, dnnl::prop_kind::forward_training, f.algorithm, data, data, f.alpha, f.beta,
          attr};
}
inline EltwiseBackward eltwise_backward(const dnnl::engine& engine, const Eltwise& f,
                                        const Desc& data, const EltwiseForward& hint,
                                        const dnnl::primitive_attr& attr) {
  return {engine, f.algorithm, data, data, data, f.alpha, f.beta, hint, attr};
}
inline void append_eltwise(dnnl::post_ops& operations, dnnl::algorithm algorithm) {
  operations.append_eltwise(algorithm, 0.F, 0.F);
}

#else

inline Dims dims_of(const Desc& desc) { return desc.dims(); }
inline Type type_of(const Desc& desc) { return desc.data_type(); }
inline bool is_blocked(const Desc& desc) { return desc.data.format_kind == dnnl_blocked; }
inline Dims padded_dims(const Desc& desc) {
  return {desc.data.padded_dims, desc.data.padded_dims + desc.data.ndims};
}
inline Dims strides_of(const Desc& desc) {
  const auto& blocking = desc.data.format_desc.blocking;
  return {blocking.strides, blocking.strides + desc.data.ndims};
}
inline Dims block_sizes(const Desc& desc) {
  const auto& blocking = desc.data.format_desc.blocking;
  return {blocking.inner_blks, blocking.inner_blks + blocking.inner_nblks};
}
inline Dims block_dims(const Desc& desc) {
  const auto& blocking = desc.data.format_desc.blocking;
  return {blocking.inner_idxs, blocking.inner_idxs + blocking.inner_nblks};
}

inline ConvForward conv_forward(const dnnl::engine& engine, dnnl::prop_kind kind,
                                dnnl::algorithm algorithm, const LayerDescs& d, const Window& w,
                                const dnnl::primitive_attr& attr) {
  return {
      {kind, algorithm, d.source, d.weights, d.bias, d.output, w.strides, w.pad_low, w.pad_high},
      attr,
      engine};
}
inline ConvWeights conv_weights(const dnnl::engine& engine, dnnl::algorithm algorithm,
                                const LayerDescs& d, const Window& w, const ConvForward& hint,
                                const dnnl::primitive_attr& attr) {
  return {{algorithm, d.source, d.weights, d.bias, d.output, w.strides, w.pad_low, w.pad_high},
          attr,
          engine,
          hint};
}
inline ConvData conv_data(const dnnl::engine& engine, dnnl::algorithm algorithm,
                          const LayerDescs& d, const Window& w, const ConvForward& hint,
                          const dnnl::primitive_attr& attr) {
  return {{algorithm, d.source, d.weights, d.output, w.strides, w.pad_low, w.pad_high},
          attr,
          engine,
          hint};
}

inline DenseForward dense_forward(const dnnl::engine& engine, dnnl::prop_kind kind,
                                  const LayerDescs& d, const dnnl::primitive_attr& attr) {
  return {{kind, d.source, d.weights, d.bias, d.output}, attr, engine};
}
inline DenseWeights dense_weights(const dnnl::engine& engine, const LayerDescs& d,
                                  const DenseForward& hint, const dnnl::primitive_attr& attr) {
  return {{d.source, d.weights, d.bias, d.output}, attr, engine, hint};
}
inline DenseData dense_data(const dnnl::engine& engine, const LayerDescs& d,
                            const DenseForward& hint, const dnnl::primitive_attr& attr) {
  return {{d.source, d.weights, d.output}, attr, engine, hint};
}

inline dnnl::normalization_flags norm_flags(bool global_statistics, bool relu) {
  auto flags = dnnl::normalization_flags::use_scale_shift;
  if (global_statistics) flags = flags | dnnl::normalization_flags::use_global_stats;
  if (relu) flags = flags | dnnl::normalization_flags::fuse_norm_relu;
  return flags;
}
inline NormForward norm_forward(const dnnl::engine& engine, dnnl::prop_kind kind, const Desc& data,
                                float epsilon, dnnl::normalization_flags flags,
                                const dnnl::primitive_attr& attr) {
  return {{kind, data, epsilon, flags}, attr, engine};
}
inline NormBackward norm_backward(const dnnl::engine& engine, const Desc& data, float epsilon,
                                  dnnl::normalization_flags flags, const NormForward& hint,
                                  const dnnl::primitive_attr& attr) {
  return {{dnnl::prop_kind::backward, data, data, epsilon, flags}, attr, engine, hint};
}
inline std::vector<NormArgument> norm_forward_arguments(std::int64_t channels) {
  return {{DNNL_ARG_SCALE_SHIFT, Desc({2, channels}, Type::f32, Tag::nc), 0}};
}
inline std::vector<NormArgument> norm_backward_arguments(std::int64_t channels) {
  return norm_forward_arguments(channels);
}
inline std::vector<NormArgument> norm_gradient_arguments(std::int64_t channels) {
  return {{DNNL_ARG_DIFF_SCALE_SHIFT, Desc({2, channels}, Type::f32, Tag::nc), 0}};
}

inline PoolForward pool_forward(const dnnl::engine& engine, dnnl::prop_kind kind,
                                dnnl::algorithm algorithm, const Desc& source, const Desc& output,
                                const Window& w, const dnnl::primitive_attr& attr) {
  return {
      {kind, algorithm, source, output, w.strides, w.kernel, w.pad_low, w.pad_high}, attr, engine};
}
inline PoolBackward pool_backward(const dnnl::engine& engine, dnnl::algorithm algorithm,
                                  const Desc& source, const Desc& output, const Window& w,
                                  const PoolForward& hint, const dnnl::primitive_attr& attr) {
  return {
      {algorithm, source, output, w.strides, w.kernel, w.pad_low, w.pad_high}, attr, engine, hint};
}

inline Eltwise hard_swish() { return {dnnl::algorithm::eltwise_hardswish}; }
inline EltwiseForward eltwise_forward(const dnnl::engine& engine, const Eltwise& f,
                                      const Desc& data, const dnnl::primitive_attr& attr) {
  return {{dnnl::prop_kind::forward_training, f.algorithm, data, f.alpha, f.beta}, attr, engine};
}
inline EltwiseBackward eltwise_backward(const dnnl::engine& engine, const Eltwise& f,
                                        const Desc& data, const EltwiseForward& hint,
                                        const dnnl::primitive_attr& attr) {
  return {{f.algorithm, data, data, f.alpha, f.beta}, attr, engine, hint};
}
inline void append_eltwise(dnnl::post_ops& operations, dnnl::algorithm algorithm) {
  operations.append_eltwise(1.F, algorithm, 0.F, 0.F);
}

#endif

}  // namespace coxswain::backend::onednn
