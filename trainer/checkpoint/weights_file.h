#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/checkpoint/checkpoint.h"

// Weights that other programs wrote.
namespace coxswain::checkpoint {

// Value. `passed_over`: tensors of other types, as PyTorch's counts of batches.
struct ForeignWeights {
  std::vector<NamedTensor> tensors;
  std::vector<std::string> passed_over;
};

// All of a file: safetensors with F32, F16 or BF16 tensors, or MXNet's .params, as 1.x writes them
// (NDArray::Save), with float32 or float16. Throws Error (65) for anything
// else, naming the tensor.
ForeignWeights decode_weights(std::span<const std::byte> bytes, std::string_view where);

// Likewise, of a file of at most 8 GiB, or a checkpoint's weights: of one folder, or of the newest
// of a directory that holds several. Throws Error also when reading fails (74).
ForeignWeights read_weights(const std::filesystem::path& path);

// A name of PyTorch's, timm's or MXNet's as this program's models call the same tensor:
// "module.conv1.weight" -> "conv1.weight", "aux:bn0_moving_mean" -> "bn0.running_mean".
std::string model_name(std::string_view foreign);

// The first names, and how many more.
std::string listed(const std::vector<std::string>& names);

// What became of foreign weights.
struct Placed {
  std::vector<std::string> unused;  // tensors that the model has no place for
  bool new_head = false;            // the last layer keeps its first values
};

// Puts each foreign tensor in the place of the model's of its name. Those of the layer `head` may
// be missing or of another shape, for other classes. Throws Error (65) for any other that is
// missing or of another shape, and for any that was passed over; nothing is changed then.
Placed place_weights(const ForeignWeights& foreign, std::string_view head,
                     std::vector<NamedTensor>& model, std::string_view where);

}  // namespace coxswain::checkpoint
