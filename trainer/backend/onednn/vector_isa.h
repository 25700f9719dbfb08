#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

#include "trainer/backend/onednn/onednn_compat.h"

namespace coxswain::backend::onednn {

// Binaries are built for any x86-64; loops that matter exist once more for AVX2 and AVX-512.
// By hand, because programs with target_clones crash under ThreadSanitizer before main.
enum class VectorIsa { kBaseline, kAvx2, kAvx512 };

inline VectorIsa vector_isa() {
  if (__builtin_cpu_supports("x86-64-v4") && has_isa(dnnl::cpu_isa::avx512_core))
    return VectorIsa::kAvx512;
  if (__builtin_cpu_supports("x86-64-v3") && has_isa(dnnl::cpu_isa::avx2)) return VectorIsa::kAvx2;
  return VectorIsa::kBaseline;
}

template <typename Body, typename... Args>
[[gnu::target("arch=x86-64-v4")]] void run_avx512(Args... args) {
  Body::run(args...);
}

template <typename Body, typename... Args>
[[gnu::target("arch=x86-64-v3")]] void run_avx2(Args... args) {
  Body::run(args...);
}

// Calls Body::run, an always-inline loop, compiled for the widest vectors of this CPU.
template <typename Body, typename... Args>
void run_widest(Args... args) {
  static const VectorIsa isa = vector_isa();
  switch (isa) {
    case VectorIsa::kAvx512:
      return run_avx512<Body, Args...>(args...);
    case VectorIsa::kAvx2:
      return run_avx2<Body, Args...>(args...);
    case VectorIsa::kBaseline:
      return Body::run(args...);
  }
}

// Calls f(begin, end) for slices of [0, count) on all threads, each slice a multiple of `grain` but
// the last.
template <typename F>
void in_parallel(std::int64_t count, std::int64_t grain, const F& f) {
  const std::int64_t grains = (count + grain - 1) / grain;
  const auto threads = std::min<std::int64_t>(omp_get_max_threads(), grains);
  if (threads <= 1) {
    if (count > 0) f(std::int64_t{0}, count);
    return;
  }
#pragma omp parallel num_threads(static_cast<int>(threads))
  {
    const std::int64_t thread = omp_get_thread_num();
    const std::int64_t team = omp_get_num_threads();
    const std::int64_t begin = grains * thread / team * grain;
    const std::int64_t end = std::min(count, grains * (thread + 1) / team * grain);
    if (begin < end) f(begin, end);
  }
}

}  // namespace coxswain::backend::onednn
