#include "trainer/checkpoint/chunked_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "trainer/checkpoint/format_json.h"
#include "trainer/contract/error.h"

namespace coxswain::checkpoint {

ChunkedWriter::ChunkedWriter(FileSystem& files, const std::filesystem::path& path)
    : files_(files), file_(files.create(path)), entry_{.name = path.filename().string()} {
  chunk_.reserve(kChunkBytes);
}

void ChunkedWriter::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t count = std::min<std::size_t>(bytes.size(), kChunkBytes - chunk_.size());
    chunk_.insert(chunk_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count));
    bytes = bytes.subspan(count);
    if (chunk_.size() == kChunkBytes) flush();
  }
}

void ChunkedWriter::flush() {
  const std::uint32_t crc = checksum(chunk_);
  entry_.crc32 = combine_checksums(entry_.crc32, crc, chunk_.size());
  entry_.chunks.push_back(crc);
  entry_.bytes += chunk_.size();
  std::span<const std::byte> left = chunk_;
  while (!left.empty()) {
    const std::size_t written = files_.write(file_, left);
    if (written == 0) {
      throw Error(ExitCode::kVolume, fmt::format("[checkpoint] cannot write {}: nothing was taken",
                                                 file_.path.string()));
    }
    left = left.subspan(written);
  }
  chunk_.clear();
}

FileEntry ChunkedWriter::finish() {
  if (!chunk_.empty()) flush();
  files_.sync(file_);
  files_.close(file_);
  return std::move(entry_);
}

void append_safetensors(ChunkedWriter& file, const std::vector<NamedTensor>& tensors) {
  const std::string header = encode_safetensors_header(tensors);
  file.append(std::as_bytes(std::span(header)));
  for (const NamedTensor& tensor : tensors) file.append(std::as_bytes(std::span(tensor.values)));
}

ChunkedReader::ChunkedReader(FileSystem& files, const std::filesystem::path& folder,
                             const FileEntry& entry)
    : files_(files),
      entry_(entry),
      file_(files.open(folder / entry.name)),
      where_(describe(folder, entry.name)) {
  if (file_.bytes != entry.bytes) {
    refuse(where_, fmt::format("{} bytes long, the manifest says {}", file_.bytes, entry.bytes));
  }
}

std::uint64_t ChunkedReader::remaining() const {
  return entry_.bytes - read_ + (chunk_.size() - used_);
}

void ChunkedReader::set_context(const std::string& what) { context_ = what + ": "; }

void ChunkedReader::next_chunk() {
  const std::uint64_t size = std::min(entry_.bytes - read_, kChunkBytes);
  const std::size_t index = chunk_index_++;
  chunk_.resize(size);
  used_ = 0;
  if (!read_exactly(files_, file_, chunk_)) {
    refuse(where_, fmt::format("{}ends inside of chunk {}", context_, index));
  }
  const std::uint32_t crc = checksum(chunk_);
  if (crc != entry_.chunks[index]) {
    refuse(where_,
           fmt::format("{}chunk {} (bytes {} to {}): checksum {}, the manifest says {}", context_,
                       index, read_, read_ + size, to_hex(crc), to_hex(entry_.chunks[index])));
  }
  read_ += size;
}

void ChunkedReader::read(std::span<std::byte> bytes) {
  if (bytes.size() > remaining()) refuse(where_, fmt::format("{}exceeds the file", context_));
  while (!bytes.empty()) {
    if (used_ == chunk_.size()) next_chunk();
    const std::size_t count = std::min(bytes.size(), chunk_.size() - used_);
    std::memcpy(bytes.data(), chunk_.data() + used_, count);
    used_ += count;
    bytes = bytes.subspan(count);
  }
}

void ChunkedReader::skip_rest() {
  while (read_ < entry_.bytes) next_chunk();
  used_ = chunk_.size();
}

bool read_exactly(FileSystem& files, OpenFile& file, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t count = files.read(file, bytes);
    if (count == 0) return false;
    bytes = bytes.subspan(count);
  }
  return true;
}

std::string describe(const std::filesystem::path& folder, std::string_view file) {
  return fmt::format("{}: {}", folder.string(), file);
}

}  // namespace coxswain::checkpoint
