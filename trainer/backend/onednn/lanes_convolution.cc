#include "trainer/backend/onednn/lanes_convolution.h"

#include "trainer/backend/onednn/lanes_kernels.h"
#include "trainer/backend/onednn/vector_isa.h"

namespace coxswain::backend::onednn {

namespace {

using tensor::DataType;

std::int64_t tiles(const LanesConvolution& conv, DataType type) {
  const std::int64_t blocks_a_tile = kTileBlocks * lanes_of(DataType::kFloat32) / lanes_of(type);
  return (conv.blocks + blocks_a_tile - 1) / blocks_a_tile;
}

}  // namespace

bool lanes_supported(DataType type) {
  if (type == DataType::kFloat32) return __builtin_cpu_supports("avx512f") != 0;
  return __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512bf16") != 0;
}

std::int64_t lanes_packed_bytes(const LanesConvolution& conv) {
  const std::int64_t cells = conv.kernel * conv.kernel + 1;
  const std::int64_t forward = groups_of(conv.channels) * conv.in_channels;
  const std::int64_t data = groups_of(conv.in_channels) * (conv.channels + 1);
  return std::max(forward, data) * cells * kGroup * 4;
}

std::vector<std::int64_t> lanes_taps(const LanesConvolution& conv, DataType type) {
  std::vector<std::int64_t> offsets;
  for (std::int64_t c = 0; c < conv.in_channels; ++c) {
    for (std::int64_t r = 0; r < conv.kernel; ++r) {
      for (std::int64_t s = 0; s < conv.kernel; ++s) {
        offsets.push_back(((c * conv.in_height + r) * conv.in_width + s) * lanes_of(type));
      }
    }
  }
  if (offsets.size() % 2 == 1) offsets.push_back(offsets.back());
  return offsets;
}

void lanes_forward(const LanesConvolution& conv, DataType type, const void* x,
                   const LanesFilter& filter, void* y) {
  const LanesForward job{conv, x, filter.taps, filter.packed, filter.bias, filter.relu, y};
  const std::int64_t items = tiles(conv, type) * conv.out_height();
  if (type == DataType::kFloat32) {
    lanes_float::pack_forward(conv, filter.weights, static_cast<float*>(filter.packed));
  } else {
    lanes_bfloat16::pack_forward(conv, filter.weights, static_cast<std::uint16_t*>(filter.packed));
  }
  in_parallel(items, 1, [&](std::int64_t begin, std::int64_t end) {
    if (type == DataType::kFloat32) {
      lanes_float::forward(job, begin, end);
    } else {
      lanes_bfloat16::forward(job, begin, end);
    }
  });
}

void lanes_backward_data(const LanesConvolution& conv, DataType type, const void* d_y,
                         const float* weights, void* packed, void* d_x) {
  const LanesData job{conv, d_y, packed, d_x};
  const std::int64_t items = tiles(conv, type) * conv.in_height;
  if (type == DataType::kFloat32) {
    lanes_float::pack_data(conv, weights, static_cast<float*>(packed));
  } else {
    lanes_bfloat16::pack_data(conv, weights, static_cast<std::uint16_t*>(packed));
  }
  in_parallel(items, 1, [&](std::int64_t begin, std::int64_t end) {
    if (type == DataType::kFloat32) {
      lanes_float::backward_data(job, begin, end);
    } else {
      lanes_bfloat16::backward_data(job, begin, end);
    }
  });
}

void lanes_backward_weights(const LanesConvolution& conv, DataType type, const void* x,
                            const void* d_y, float* d_weights, float* d_bias) {
  const LanesWeights job{conv, x, d_y, d_weights};
  const std::int64_t items = groups_of(conv.channels) * conv.in_channels * conv.kernel;
  in_parallel(items, 1, [&](std::int64_t begin, std::int64_t end) {
    if (type == DataType::kFloat32) {
      lanes_float::backward_weights(job, begin, end);
    } else {
      lanes_bfloat16::backward_weights(job, begin, end);
    }
  });
  if (d_bias == nullptr) return;
  in_parallel(conv.channels, 1, [&](std::int64_t begin, std::int64_t end) {
    if (type == DataType::kFloat32) {
      lanes_float::backward_bias(job, d_bias, begin, end);
    } else {
      lanes_bfloat16::backward_bias(job, d_bias, begin, end);
    }
  });
}

}  // namespace coxswain::backend::onednn
