#include "trainer/data/idx.h"

#include <fmt/format.h>

#include "trainer/contract/error.h"
#include "trainer/data/file_bytes.h"
#include "trainer/data/gzip.h"

namespace coxswain::data {

namespace {

constexpr std::uint32_t kImagesMagic = 2051;  // 0x08: unsigned bytes, 3 dimensions
constexpr std::uint32_t kLabelsMagic = 2049;
constexpr std::size_t kImagesHeader = 16;
constexpr std::size_t kLabelsHeader = 8;
constexpr std::int64_t kMaxSide = 16384;
constexpr std::int64_t kMaxInflated = std::int64_t{8} << 30;  // far above any published IDX set

std::uint32_t big_endian(std::span<const std::uint8_t> bytes, std::size_t offset) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = (value << 8) | bytes[offset + i];
  return value;
}

const char* name_of(IdxKind kind) { return kind == IdxKind::kImages ? "images" : "labels"; }

std::size_t header_size(IdxKind kind) {
  return kind == IdxKind::kImages ? kImagesHeader : kLabelsHeader;
}

void check_magic(std::uint32_t magic, IdxKind kind, const std::filesystem::path& file) {
  const std::uint32_t expected = kind == IdxKind::kImages ? kImagesMagic : kLabelsMagic;
  if (magic == expected) return;
  const IdxKind other = kind == IdxKind::kImages ? IdxKind::kLabels : IdxKind::kImages;
  if (magic == (kind == IdxKind::kImages ? kLabelsMagic : kImagesMagic)) {
    refuse(file, fmt::format("holds {} (magic {}), expected {} ({}); are the two files swapped?",
                             name_of(other), magic, name_of(kind), expected));
  }
  refuse(file,
         fmt::format("magic 0x{:08x}, expected 0x{:08x} (IDX {})", magic, expected, name_of(kind)));
}

// The header's numbers, without the content.
IdxFile parse_header(std::span<const std::uint8_t> start, IdxKind kind,
                     const std::filesystem::path& file) {
  IdxFile header;
  header.header_bytes = header_size(kind);
  if (start.size() >= 4) check_magic(big_endian(start, 0), kind, file);
  if (start.size() < header.header_bytes) {
    refuse(file, fmt::format("{} bytes, header of {} expected", start.size(), header.header_bytes));
  }
  header.count = big_endian(start, 4);
  if (kind == IdxKind::kImages) {
    header.rows = big_endian(start, 8);
    header.columns = big_endian(start, 12);
  }
  if (header.count == 0) refuse(file, fmt::format("states 0 {}", name_of(kind)));
  if (header.rows == 0 || header.columns == 0) {
    refuse(file, fmt::format("record 0: empty image of {}x{}", header.rows, header.columns));
  }
  if (header.rows > kMaxSide || header.columns > kMaxSide) {
    refuse(file, fmt::format("images of {}x{}, over {}x{}", header.rows, header.columns, kMaxSide,
                             kMaxSide));
  }
  return header;
}

std::string stated(const IdxFile& header, IdxKind kind) {
  return kind == IdxKind::kImages
             ? fmt::format("{} images of {}x{}", header.count, header.rows, header.columns)
             : fmt::format("{} labels", header.count);
}

void check_size(const IdxFile& header, IdxKind kind, std::size_t size, const std::string& cause,
                const std::filesystem::path& file) {
  const std::int64_t record = header.rows * header.columns;
  const auto have = static_cast<std::int64_t>(size - header.header_bytes);
  if (have < header.count * record) {
    refuse(file, fmt::format("ends in record {}: {} of {} bytes{}, but states {}; copy it anew",
                             have / record, have % record, record, cause, stated(header, kind)));
  }
  if (have > header.count * record) {
    refuse(file, fmt::format("{} trailing bytes after the stated {}", have - header.count * record,
                             stated(header, kind)));
  }
}

std::vector<std::uint8_t> inflate_stated(const std::vector<std::uint8_t>& content,
                                         const IdxFile& header, IdxKind kind,
                                         const std::filesystem::path& file) {
  const std::int64_t size =
      static_cast<std::int64_t>(header.header_bytes) + header.count * header.rows * header.columns;
  if (size > kMaxInflated) {
    refuse(file, fmt::format("states {}, {} bytes, over the limit of {}", stated(header, kind),
                             size, kMaxInflated));
  }
  // One byte more than stated, so that a longer stream is seen.
  Inflated inflated = inflate_at_most(content, static_cast<std::size_t>(size) + 1);
  const bool all = static_cast<std::int64_t>(inflated.bytes.size()) == size;
  switch (inflated.end) {
    case InflateEnd::kComplete:
      check_size(header, kind, inflated.bytes.size(), "", file);
      break;
    case InflateEnd::kLimit:
      refuse(file, fmt::format("trailing bytes after the stated {}", stated(header, kind)));
    case InflateEnd::kTruncated:
      if (all) refuse(file, "the gzip checksum is cut off; copy it anew");
      check_size(header, kind, inflated.bytes.size(), " (compressed data cut off)", file);
      break;
    case InflateEnd::kCorrupt:
      refuse(file, fmt::format("corrupt compressed data after {} bytes: {}; copy it anew",
                               inflated.bytes.size(), inflated.problem));
  }
  return std::move(inflated.bytes);
}

}  // namespace

IdxFile parse_idx(std::vector<std::uint8_t> content, IdxKind kind,
                  const std::filesystem::path& file) {
  if (!is_gzip(content)) {
    IdxFile result = parse_header(content, kind, file);
    check_size(result, kind, content.size(), "", file);
    result.bytes = std::move(content);
    return result;
  }
  const Inflated start = inflate_at_most(content, header_size(kind));
  if (start.end == InflateEnd::kCorrupt) {
    refuse(file, fmt::format("corrupt compressed data after {} bytes: {}; copy it anew",
                             start.bytes.size(), start.problem));
  }
  IdxFile result = parse_header(start.bytes, kind, file);
  result.bytes = inflate_stated(content, result, kind, file);
  return result;
}

}  // namespace coxswain::data
