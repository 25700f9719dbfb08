#pragma once

#include <filesystem>

#include "trainer/checkpoint/file_system.h"

namespace coxswain::checkpoint {

// Copies the model's file of a checkpoint to `output`: whole or not at all, and without a trace of
// a copy that failed. A file of this name is replaced. Throws Error: 2 when the name is none for a
// file, or something else than a file is there (a link, a directory, a FIFO, a device); 74 when the
// volume fails.
void export_model(FileSystem& files, const std::filesystem::path& checkpoint,
                  const std::filesystem::path& output);

}  // namespace coxswain::checkpoint
