#include "trainer/data/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>

namespace coxswain::data {

namespace {

constexpr int kLengthBits = 29;
constexpr std::int32_t kMostClasses = 1 << 24;  // as a float tells whole numbers apart

std::uint64_t little_endian(std::span<const std::uint8_t> bytes, std::size_t at, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = size; i-- > 0;) value = value << 8 | bytes[at + i];
  return value;
}

std::uint32_t word_at(std::span<const std::uint8_t> bytes, std::size_t at) {
  return static_cast<std::uint32_t>(little_endian(bytes, at, 4));
}

void append(std::vector<std::uint8_t>& out, std::uint64_t value, int size) {
  for (int i = 0; i < size; ++i) out.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
}

ParsedRecord bad(std::string problem) { return {.record = {}, .problem = std::move(problem)}; }

// What a record holds: as it lies there, or in `joined` with the magic that parted it back in
// between.
std::string content_of(std::span<const std::uint8_t> bytes, std::vector<std::uint8_t>& joined,
                       std::span<const std::uint8_t>& content) {
  std::size_t from = 0;
  joined.clear();
  for (bool is_first = true;; is_first = false) {
    const ParsedPart part = parse_part(bytes.subspan(from));
    if (!part.problem.empty()) return part.problem;
    const PartKind kind = part.header.kind;
    const bool begins = kind == PartKind::kWhole || kind == PartKind::kFirst;
    if (begins != is_first)
      return is_first ? "begins in the middle of another" : "has no last part";
    const std::size_t left = bytes.size() - from - kPartHeader;
    if (part.header.size > left) {
      return fmt::format("ends after {} of {} bytes", left, part.header.size);
    }
    content = bytes.subspan(from + kPartHeader, part.header.size);
    if (kind == PartKind::kWhole) return "";
    if (!is_first) append(joined, kRecordMagic, 4);
    joined.insert(joined.end(), content.begin(), content.end());
    from += kPartHeader + std::min(part.header.padded(), left);
    if (kind == PartKind::kLast) break;
  }
  content = joined;
  return "";
}

}  // namespace

ParsedPart parse_part(std::span<const std::uint8_t> bytes) {
  if (bytes.size() < kPartHeader) {
    return {.header = {},
            .problem = fmt::format("ends in a header, after {} of 8 bytes", bytes.size())};
  }
  if (const std::uint32_t magic = word_at(bytes, 0); magic != kRecordMagic) {
    return {.header = {},
            .problem = fmt::format("begins with 0x{:08x}, expected 0x{:08x}", magic, kRecordMagic)};
  }
  const std::uint32_t word = word_at(bytes, 4);
  const std::uint32_t kind = word >> kLengthBits;
  if (kind > 3)
    return {.header = {}, .problem = fmt::format("has a part of unknown kind {}", kind)};
  return {.header = {static_cast<PartKind>(kind), word & kMostPartBytes}, .problem = ""};
}

ParsedLabel parse_label(std::span<const std::uint8_t> content) {
  const auto refuse = [](std::string problem) { return ParsedLabel{0, std::move(problem)}; };
  if (content.size() < kImageHeader) {
    return refuse(fmt::format("holds {} bytes, less than an image's header of {}", content.size(),
                              kImageHeader));
  }
  if (const std::uint32_t count = word_at(content, 0); count != 0) {
    return refuse(
        fmt::format("has an array of {} labels; one class for each image can be learnt, so "
                    "pack it with one label",
                    count));
  }
  const float label = std::bit_cast<float>(word_at(content, 4));
  if (!(label >= 0) || label >= kMostClasses || label != std::floor(label)) {
    return refuse(fmt::format("has label {}, expected a class, 0, 1, 2, ...", label));
  }
  return {static_cast<std::int32_t>(label), ""};
}

ParsedRecord parse_record(std::span<const std::uint8_t> bytes, std::vector<std::uint8_t>& joined) {
  std::span<const std::uint8_t> content;
  if (std::string problem = content_of(bytes, joined, content); !problem.empty()) {
    return bad(std::move(problem));
  }
  ParsedLabel label = parse_label(content);
  if (!label.problem.empty()) return bad(std::move(label.problem));
  return {.record = {static_cast<float>(label.label), little_endian(content, 8, 8),
                     content.subspan(kImageHeader)},
          .problem = ""};
}

ParsedIndex parse_index(std::string_view text) {
  ParsedIndex index;
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::string_view entry = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(entry.size() + 1, text.size()));
    std::uint64_t number = 0;
    std::uint64_t position = 0;
    const char* end = entry.data() + entry.size();
    const auto key = std::from_chars(entry.data(), end, number);
    const bool has_key = key.ec == std::errc() && key.ptr != end && *key.ptr == '\t';
    if (!has_key) {
      return {{}, fmt::format("line {}: is no number and position, parted by a tab", line)};
    }
    const auto value = std::from_chars(key.ptr + 1, end, position);
    const bool is_whole = value.ptr == end || (value.ptr + 1 == end && *value.ptr == '\r');
    if (value.ec != std::errc() || !is_whole) {
      return {{}, fmt::format("line {}: is no number and position, parted by a tab", line)};
    }
    index.positions.push_back(position);
  }
  if (index.positions.empty()) index.problem = "lists no record";
  return index;
}

void append_record(std::vector<std::uint8_t>& out, std::int32_t label, std::uint64_t id,
                   std::span<const std::uint8_t> image) {
  std::vector<std::uint8_t> content;
  content.reserve(kImageHeader + image.size());
  append(content, 0, 4);
  append(content, std::bit_cast<std::uint32_t>(static_cast<float>(label)), 4);
  append(content, id, 8);
  append(content, 0, 8);
  content.insert(content.end(), image.begin(), image.end());
  std::size_t done = 0;
  bool is_split = false;
  const auto add_part = [&](PartKind kind, std::size_t end) {
    append(out, kRecordMagic, 4);
    append(out, static_cast<std::uint32_t>(kind) << kLengthBits | (end - done), 4);
    out.insert(out.end(), content.begin() + static_cast<std::ptrdiff_t>(done),
               content.begin() + static_cast<std::ptrdiff_t>(end));
    out.resize((out.size() + 3) / 4 * 4);
  };
  for (std::size_t at = 0; at + 4 <= content.size(); at += 4) {
    if (word_at(content, at) != kRecordMagic) continue;
    add_part(is_split ? PartKind::kMiddle : PartKind::kFirst, at);
    is_split = true;
    done = at + 4;
  }
  add_part(is_split ? PartKind::kLast : PartKind::kWhole, content.size());
}

}  // namespace coxswain::data
