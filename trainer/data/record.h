#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// MXNet's RecordIO, as dmlc-core defines it: little-endian words, a magic and a part's
// kind and length, then its bytes, padded to four. Bytes that hold the magic themselves, at a
// multiple of four, are split there, and it is left out. Pure.
namespace coxswain::data {

constexpr std::uint32_t kRecordMagic = 0xced7230a;
constexpr std::size_t kPartHeader = 8;
constexpr std::size_t kImageHeader = 24;
constexpr std::size_t kMostPartBytes = (std::size_t{1} << 29) - 1;

enum class PartKind { kWhole = 0, kFirst = 1, kMiddle = 2, kLast = 3 };

struct PartHeader {
  PartKind kind = PartKind::kWhole;
  std::size_t size = 0;
  std::size_t padded() const { return (size + 3) / 4 * 4; }
};

// Value. What came of bytes; with a problem the rest is nothing.
struct ParsedPart {
  PartHeader header;
  std::string problem;  // "has no record's magic at byte 8"
};
ParsedPart parse_part(std::span<const std::uint8_t> bytes);

// What stands before an image (mxnet.recordio.IRHeader).
struct ImageRecord {
  float label = 0;
  std::uint64_t id = 0;
  std::span<const std::uint8_t> image;
};

struct ParsedRecord {
  ImageRecord record;
  std::string problem;
};

// One record from its first byte on. Its image lies in `bytes`, or in `joined` where the record has
// several parts, which are put together there.
ParsedRecord parse_record(std::span<const std::uint8_t> bytes, std::vector<std::uint8_t>& joined);

// The label of an image's header, a class; else the problem in words. `content` begins with the
// header.
struct ParsedLabel {
  std::int32_t label = 0;
  std::string problem;
};
ParsedLabel parse_label(std::span<const std::uint8_t> content);

// What a .idx says: a record a line, its number and where it begins.
struct ParsedIndex {
  std::vector<std::uint64_t> positions;
  std::string problem;  // "line 2: is no number and position, parted by a tab"
};
ParsedIndex parse_index(std::string_view text);

// Appends a record as MXNet writes it.
void append_record(std::vector<std::uint8_t>& out, std::int32_t label, std::uint64_t id,
                   std::span<const std::uint8_t> image);

}  // namespace coxswain::data
