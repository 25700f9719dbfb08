#pragma once

namespace coxswain::optim {

template <class Loop>
[[gnu::target("arch=x86-64-v4")]] void with_avx512(const Loop& loop) {
  loop();
}

template <class Loop>
[[gnu::target("arch=x86-64-v3")]] void with_avx2(const Loop& loop) {
  loop();
}

// Calls `loop`, whose call operator is always inlined, compiled for what this CPU has: by hand,
// because programs with target_clones crash under ThreadSanitizer before main.
template <class Loop>
void by_instruction_set(const Loop& loop) {
  if (__builtin_cpu_supports("x86-64-v4")) return with_avx512(loop);
  if (__builtin_cpu_supports("x86-64-v3")) return with_avx2(loop);
  loop();
}

}  // namespace coxswain::optim
