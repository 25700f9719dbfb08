#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/options/options.h"

namespace coxswain {

// Value. What a rank knows of its machine.
struct GpuSeat {
  int gpus = 0;         // that this process sees
  int ranks_here = 1;   // on this machine
  int local_rank = 0;   // of those
  std::string visible = {};  // CUDA_VISIBLE_DEVICES, as a person gave it; "": nobody did
};

// The GPU that the rank takes: that of its place on its machine, or nothing: it computes on the
// CPU. Throws Error(65) when there are fewer GPUs than ranks, or none and `device` asks for one.
// Pure.
std::optional<int> choose_gpu(Device device, const GpuSeat& seat);

// `on_gpu`: whether each rank, in order, took one. Throws Error(65), naming ranks, unless all did
// or none. Pure.
void require_one_kind(const std::vector<bool>& on_gpu);

}  // namespace coxswain
