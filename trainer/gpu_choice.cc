#include "trainer/gpu_choice.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/contract/error.h"

namespace coxswain {

std::optional<int> choose_gpu(Device device, const GpuSeat& seat) {
  if (device == Device::kCpu) return std::nullopt;
  const std::string visible =
      seat.visible.empty() ? "" : fmt::format(" (CUDA_VISIBLE_DEVICES={})", seat.visible);
  if (seat.gpus == 0) {
    if (device == Device::kAuto) return std::nullopt;
    return 0;  // taking it says what is wrong: a driver, a pod without GPUs, a program without CUDA
  }
  if (seat.ranks_here > seat.gpus) {
    throw Error(ExitCode::kBadInput,
                fmt::format("[cuda] {} ranks on this machine, and {} GPU{} to be seen{}: a rank "
                            "takes one: lower workers or slotsPerWorker, or say device: cpu",
                            seat.ranks_here, seat.gpus, seat.gpus == 1 ? "" : "s", visible));
  }
  return seat.local_rank;
}

void require_one_kind(const std::vector<bool>& on_gpu) {
  const auto with = std::ranges::find(on_gpu, true) - on_gpu.begin();
  const auto without = std::ranges::find(on_gpu, false) - on_gpu.begin();
  const auto size = std::ssize(on_gpu);
  if (with == size || without == size) return;
  throw Error(ExitCode::kBadInput,
              fmt::format("[cuda] rank {} sees no GPU, and rank {} does: give GPUs to all ranks, "
                          "or say device: cpu",
                          without, with));
}

}  // namespace coxswain
