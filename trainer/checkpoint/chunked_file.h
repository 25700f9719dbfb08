#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainer/checkpoint/file_system.h"
#include "trainer/checkpoint/format.h"

namespace coxswain::checkpoint {

// Resource. Writes a new file in chunks of 1 MiB and takes their checksums on the way.
class ChunkedWriter {
 public:
  ChunkedWriter(FileSystem& files, const std::filesystem::path& path);
  void append(std::span<const std::byte> bytes);
  FileEntry finish();  // writes the rest, syncs and closes

 private:
  void flush();

  FileSystem& files_;
  OpenFile file_;
  FileEntry entry_;
  std::vector<std::byte> chunk_;
};

// All of a safetensors file.
void append_safetensors(ChunkedWriter& file, const std::vector<NamedTensor>& tensors);

// Resource. Hands out a file's bytes in order, each only after the chunk it lies in was checked.
// Throws Error (65) when the file does not have the size or the checksums of `entry`.
class ChunkedReader {
 public:
  ChunkedReader(FileSystem& files, const std::filesystem::path& folder, const FileEntry& entry);
  std::uint64_t remaining() const;
  void read(std::span<std::byte> bytes);
  void skip_rest();
  void set_context(const std::string& what);  // what is read, for messages: tensor "conv1.weight"

 private:
  void next_chunk();

  FileSystem& files_;
  const FileEntry& entry_;
  OpenFile file_;
  std::string where_;
  std::string context_;
  std::vector<std::byte> chunk_;
  std::size_t chunk_index_ = 0;  // the next to be read from the file
  std::size_t used_ = 0;         // bytes of chunk_ that were handed out
  std::uint64_t read_ = 0;       // bytes of the file that are or were in chunk_
};

// Fills `bytes` from the file; false when it ends before that.
bool read_exactly(FileSystem& files, OpenFile& file, std::span<std::byte> bytes);

// "/checkpoints/step-00000200.g1: model.safetensors", as every message names a file.
std::string describe(const std::filesystem::path& folder, std::string_view file);

}  // namespace coxswain::checkpoint
