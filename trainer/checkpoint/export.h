#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/file_system.h"

namespace coxswain::checkpoint {

// Tensors as a safetensors file at `output`, as a checkpoint holds them: whole or not at all, and
// without a trace of one that failed. What has this name is replaced. Throws Error (74) when the
// volume fails.
void export_safetensors(FileSystem& files, const std::vector<NamedTensor>& tensors,
                        const std::filesystem::path& output);

// Likewise, any bytes.
void export_bytes(FileSystem& files, std::span<const std::byte> bytes,
                  const std::filesystem::path& output);

// Likewise, tensors as an .npz file. Throws Error also for what has no place in one: 2 for more
// than 4 GiB, 65 for a tensor whose name would be none for a file.
void export_npz(FileSystem& files, const std::vector<NamedTensor>& tensors,
                const std::filesystem::path& output);

}  // namespace coxswain::checkpoint
