#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/tensor/philox.h"

namespace coxswain::checkpoint {

inline NamedTensor sample_tensor(const std::string& name, std::vector<std::int64_t> dims,
                                 std::uint64_t seed) {
  std::int64_t elements = 1;
  for (const std::int64_t dim : dims) elements *= dim;
  NamedTensor tensor{.name = name, .dims = std::move(dims), .values = {}};
  for (std::int64_t i = 0; i < elements; ++i) {
    const auto words = tensor::philox(
        seed, {.sample = tensor::stream_of(name), .index = static_cast<std::uint32_t>(i)});
    tensor.values.push_back(tensor::to_uniform(words[0]) - 0.5F);
  }
  return tensor;
}

// A small model's checkpoint; every value depends on the step.
inline Contents sample_contents(std::int64_t step) {
  const auto seed = static_cast<std::uint64_t>(step);
  Contents contents;
  contents.state = {.step = step,
                    .update_count = step,
                    .epoch = step / 10,
                    .samples_in_epoch = 64 * (step % 10),
                    .total_steps = 1000,
                    .world_size = 2,
                    .global_batch = 128,
                    .attempt = 1,
                    .epoch_loss_sum = 0.1 * static_cast<double>(step),
                    .epoch_correct = step,
                    .epoch_samples = 64 * (step % 10),
                    .last_accuracy = 0.5,
                    .last_loss = 1.25,
                    .fingerprint = "test avx512 threads=1",
                    .identity = {{"model", "mlp"}, {"optimizer.name", "sgd"}},
                    .trajectory = {{"seed", "42"}}};
  contents.model = {sample_tensor("fc1.weight", {5, 7}, seed), sample_tensor("fc1.bias", {5}, seed),
                    sample_tensor("bn.running_mean", {3}, seed)};
  contents.optimizer = {sample_tensor("0.fc1.weight", {5, 7}, seed),
                        sample_tensor("0.fc1.bias", {5}, seed)};
  return contents;
}

inline bool operator==(const Contents& a, const Contents& b) {
  return a.state == b.state && a.model == b.model && a.optimizer == b.optimizer;
}

std::string read_bytes(const std::filesystem::path& path);
void write_bytes(const std::filesystem::path& path, const std::string& bytes);
std::vector<std::string> names_in(const std::filesystem::path& directory);  // sorted

}  // namespace coxswain::checkpoint
