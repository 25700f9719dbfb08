#include "trainer/backend/onednn/vector_loops.h"

#include <bit>

#include "trainer/backend/onednn/vector_isa.h"

namespace coxswain::backend::onednn {

namespace {

constexpr std::int64_t kGrain = 4096;   // elements a thread takes at least
constexpr std::int64_t kBlock = 256;    // elements summed in registers and first-level cache
constexpr std::int64_t kChannels = 64;  // whose sums are in registers and first-level cache

using Bfloat16 = std::uint16_t;

[[gnu::always_inline]] inline float load(const float* p) { return *p; }
[[gnu::always_inline]] inline float load(const Bfloat16* p) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(*p) << 16);
}
[[gnu::always_inline]] inline void store(float* p, float value) { *p = value; }
// tensor::to_bfloat16 without branches, so that it vectorises.
[[gnu::always_inline]] inline void store(Bfloat16* p, float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
  const std::uint32_t quiet_nan = (bits >> 16) | 0x40U;
  *p = static_cast<Bfloat16>((bits & 0x7FFFFFFFU) > 0x7F800000U ? quiet_nan : rounded);
}

template <typename T, bool kRelu>
struct AddBody {
  [[gnu::always_inline]] static void run(T* sum, const T* a, const T* b, std::int64_t count) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) {
      const float value = load(a + i) + load(b + i);
      store(sum + i, kRelu && value < 0 ? 0.F : value);  // NaN stays
    }
  }
};

struct RoundBody {
  [[gnu::always_inline]] static void run(float* values, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i)
      values[i] = tensor::round_to(tensor::DataType::kFloat16, values[i]);
  }
};

template <typename T>
struct JoinBody {
  [[gnu::always_inline]] static void run(T* sum, std::span<const void* const> parts,
                                         const T* output, Activation activation, std::int64_t begin,
                                         std::int64_t end) {
    const T* first = static_cast<const T*>(parts[0]);
    for (std::int64_t at = begin; at < end; at += kBlock) {
      const std::int64_t n = std::min(kBlock, end - at);
      alignas(64) float total[kBlock];
      for (std::int64_t i = 0; i < n; ++i) total[i] = load(first + at + i);
      for (const void* other : parts.subspan(1)) {
        const T* part = static_cast<const T*>(other) + at;
        for (std::int64_t i = 0; i < n; ++i) total[i] += load(part + i);
      }
      if (activation == Activation::kRelu) {
        for (std::int64_t i = 0; i < n; ++i) total[i] = load(output + at + i) > 0 ? total[i] : 0.F;
      } else if (activation == Activation::kTanh) {
        for (std::int64_t i = 0; i < n; ++i) {
          const float y = load(output + at + i);
          total[i] *= 1.F - y * y;
        }
      }
      for (std::int64_t i = 0; i < n; ++i) store(sum + at + i, total[i]);
    }
  }
};

template <typename T>
struct MaskBody {
  [[gnu::always_inline]] static void run(T* y, const T* x, const std::uint8_t* kept, float scale,
                                         std::int64_t count) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) {
      store(y + i, kept[i] != 0 ? load(x + i) * scale : 0.F);
    }
  }
};

template <typename T>
struct MultiplyBody {
  [[gnu::always_inline]] static void run(T* products, const T* values, const T* factors,
                                         std::int64_t cells, std::int64_t channels) {
    for (std::int64_t cell = 0; cell < cells; ++cell) {
      const std::int64_t first = cell * channels;
#pragma GCC ivdep
      for (std::int64_t i = 0; i < channels; ++i)
        store(products + first + i, load(values + first + i) * load(factors + i));
    }
  }
};

template <typename T>
struct SumProductsBody {
  [[gnu::always_inline]] static void run(T* sums, const T* a, const T* b, std::int64_t cells,
                                         std::int64_t channels) {
    for (std::int64_t first = 0; first < channels; first += kChannels) {
      const std::int64_t count = std::min(kChannels, channels - first);
      alignas(64) double total[kChannels] = {};
      for (std::int64_t cell = 0; cell < cells; ++cell) {
        const std::int64_t at = cell * channels + first;
        for (std::int64_t i = 0; i < count; ++i)
          total[i] += static_cast<double>(load(a + at + i)) * static_cast<double>(load(b + at + i));
      }
      for (std::int64_t i = 0; i < count; ++i)
        store(sums + first + i, static_cast<float>(total[i]));
    }
  }
};

template <typename T>
void add_typed(T* sum, const T* a, const T* b, bool relu, std::int64_t count) {
  in_parallel(count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    if (relu) {
      run_widest<AddBody<T, true>>(sum + begin, a + begin, b + begin, end - begin);
    } else {
      run_widest<AddBody<T, false>>(sum + begin, a + begin, b + begin, end - begin);
    }
  });
}

template <typename T>
void join_typed(T* sum, std::span<const void* const> parts, const T* output, Activation activation,
                std::int64_t count) {
  in_parallel(count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    run_widest<JoinBody<T>>(sum, parts, output, activation, begin, end);
  });
}

template <typename T>
void mask_typed(T* y, const T* x, const std::uint8_t* kept, float scale, std::int64_t count) {
  in_parallel(count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    run_widest<MaskBody<T>>(y + begin, x + begin, kept + begin, scale, end - begin);
  });
}

template <typename T>
void multiply_typed(T* products, const T* values, const T* factors, const Planes& planes) {
  const std::int64_t plane = planes.cells * planes.channels;
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / plane);
  in_parallel(planes.count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p)
      run_widest<MultiplyBody<T>>(products + p * plane, values + p * plane,
                                  factors + p * planes.channels, planes.cells, planes.channels);
  });
}

template <typename T>
void sum_products_typed(T* sums, const T* a, const T* b, const Planes& planes) {
  const std::int64_t plane = planes.cells * planes.channels;
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / plane);
  in_parallel(planes.count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p)
      run_widest<SumProductsBody<T>>(sums + p * planes.channels, a + p * plane, b + p * plane,
                                     planes.cells, planes.channels);
  });
}

}  // namespace

void add_tensors(DataType type, void* sum, const void* a, const void* b, bool relu,
                 std::int64_t count) {
  if (type == DataType::kFloat32) {
    add_typed(static_cast<float*>(sum), static_cast<const float*>(a), static_cast<const float*>(b),
              relu, count);
  } else {
    add_typed(static_cast<Bfloat16*>(sum), static_cast<const Bfloat16*>(a),
              static_cast<const Bfloat16*>(b), relu, count);
  }
}

void join_gradients(DataType type, void* sum, std::span<const void* const> parts,
                    const void* output, Activation activation, std::int64_t count) {
  if (type == DataType::kFloat32) {
    join_typed(static_cast<float*>(sum), parts, static_cast<const float*>(output), activation,
               count);
  } else {
    join_typed(static_cast<Bfloat16*>(sum), parts, static_cast<const Bfloat16*>(output), activation,
               count);
  }
}

void apply_mask(DataType type, void* y, const void* x, const std::uint8_t* kept, float scale,
                std::int64_t count) {
  if (type == DataType::kFloat32) {
    mask_typed(static_cast<float*>(y), static_cast<const float*>(x), kept, scale, count);
  } else {
    mask_typed(static_cast<Bfloat16*>(y), static_cast<const Bfloat16*>(x), kept, scale, count);
  }
}

void multiply(DataType type, void* products, const void* values, const void* factors,
              const Planes& planes, bool of_cells) {
  const Planes own = of_cells ? Planes{planes.count * planes.cells, 1, planes.channels} : planes;
  if (type == DataType::kFloat32) {
    multiply_typed(static_cast<float*>(products), static_cast<const float*>(values),
                   static_cast<const float*>(factors), own);
  } else {
    multiply_typed(static_cast<Bfloat16*>(products), static_cast<const Bfloat16*>(values),
                   static_cast<const Bfloat16*>(factors), own);
  }
}

void sum_products(DataType type, void* sums, const void* a, const void* b, const Planes& planes) {
  if (type == DataType::kFloat32) {
    sum_products_typed(static_cast<float*>(sums), static_cast<const float*>(a),
                       static_cast<const float*>(b), planes);
  } else {
    sum_products_typed(static_cast<Bfloat16*>(sums), static_cast<const Bfloat16*>(a),
                       static_cast<const Bfloat16*>(b), planes);
  }
}

void round_to_halves(float* values, std::int64_t count) {
  in_parallel(count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    run_widest<RoundBody>(values + begin, end - begin);
  });
}

}  // namespace coxswain::backend::onednn
