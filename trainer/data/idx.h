#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace coxswain::data {

enum class IdxKind { kImages, kLabels };

// Value. One IDX file (http://yann.lecun.com/exdb/mnist, "file formats"): big-endian magic 2051 and
// count, rows, columns, then pixels; or magic 2049 and count, then labels.
struct IdxFile {
  std::int64_t count = 0;
  std::int64_t rows = 1;  // 1x1 for labels
  std::int64_t columns = 1;
  std::vector<std::uint8_t> bytes;  // with the header, as in the file
  std::size_t header_bytes = 0;

  std::span<const std::uint8_t> record(std::int64_t index) const {
    const auto size = static_cast<std::size_t>(rows * columns);
    return std::span(bytes).subspan(header_bytes + static_cast<std::size_t>(index) * size, size);
  }
};

// Reads the content of an IDX file, gzipped or not: what its first bytes say counts, not its name.
// Throws Error (65) with `file`, the record and the bytes; never inflates beyond what the header
// states.
IdxFile parse_idx(std::vector<std::uint8_t> content, IdxKind kind,
                  const std::filesystem::path& file);

}  // namespace coxswain::data
