#pragma once

#include <filesystem>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/file_system.h"

namespace coxswain::checkpoint {

// Copies the model's file of a checkpoint to `output`: whole or not at all, and without a trace of
// a copy that failed. A file of this name is replaced. Throws Error: 2 when the name is none for a
// file, or something else than a file is there (a link, a directory, a FIFO, a device); 74 when the
// volume fails.
void export_model(FileSystem& files, const std::filesystem::path& checkpoint,
                  const std::filesystem::path& output);

// Likewise, tensors as an .npz file. Throws Error also for what has no place in one: 2 for more
// than 4 GiB, 65 for a tensor whose name would be none for a file.
void export_npz(FileSystem& files, const std::vector<NamedTensor>& tensors,
                const std::filesystem::path& output);

}  // namespace coxswain::checkpoint
