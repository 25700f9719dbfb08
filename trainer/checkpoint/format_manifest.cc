#include <fmt/format.h>
#include <zlib.h>

#include <charconv>

#include "trainer/checkpoint/format.h"
#include "trainer/checkpoint/format_json.h"

namespace coxswain::checkpoint {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr int kMaxDepth = 4;  // files, file, chunks, checksum
constexpr std::size_t kMaxFiles = 16;

// Removes `prefix` and at most 18 digits after it; nothing when they aren't there.
std::optional<std::int64_t> take_number(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return std::nullopt;
  const std::string_view rest = text.substr(prefix.size());
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  const auto digits = static_cast<std::size_t>(end - rest.data());
  if (error != std::errc() || digits > 18 || number < 0) return std::nullopt;
  text = rest.substr(digits);
  return number;
}

ordered_json body_of(const Manifest& manifest) {
  ordered_json body = {{"version", kFormatVersion},
                       {"step", manifest.name.step},
                       {"generation", manifest.name.generation},
                       {"revision", manifest.name.revision},
                       {"fingerprint", manifest.fingerprint},
                       {"files", ordered_json::array()}};
  for (const FileEntry& file : manifest.files) {
    ordered_json chunks = ordered_json::array();
    for (const std::uint32_t chunk : file.chunks) chunks.push_back(to_hex(chunk));
    body["files"].push_back({{"name", file.name},
                             {"bytes", file.bytes},
                             {"crc32", to_hex(file.crc32)},
                             {"chunks", std::move(chunks)}});
  }
  return body;
}

std::string dump(const ordered_json& value) {
  return value.dump(1, ' ', false, ordered_json::error_handler_t::replace);
}

FileEntry decode_file(const json& value, std::string_view where) {
  JsonFields fields(value, fmt::format("{}: files", where));
  FileEntry file{.name = fields.text("name"),
                 .bytes = static_cast<std::uint64_t>(fields.integer("bytes")),
                 .crc32 = fields.crc32("crc32")};
  const json& chunks = fields.array("chunks");
  fields.finish();
  std::uint64_t left = file.bytes;
  std::uint32_t whole = 0;
  for (const json& chunk : chunks) {
    if (!chunk.is_string()) refuse(where, fmt::format("{}: a checksum is no string", file.name));
    file.chunks.push_back(parse_hex(chunk.get_ref<const std::string&>(), where));
    const std::uint64_t size = std::min(left, kChunkBytes);
    whole = combine_checksums(whole, file.chunks.back(), size);
    left -= size;
  }
  const std::uint64_t expected = (file.bytes + kChunkBytes - 1) / kChunkBytes;
  if (file.chunks.size() != expected || whole != file.crc32) {
    refuse(where, fmt::format("{}: the checksums of its chunks don't make up its own", file.name));
  }
  return file;
}

}  // namespace

std::string to_text(const CheckpointName& name) {
  const std::string text = fmt::format("step-{:08}.g{}", name.step, name.generation);
  return name.revision == 1 ? text : fmt::format("{}.r{}", text, name.revision);
}

std::optional<CheckpointName> parse_checkpoint_name(std::string_view text) {
  std::string_view rest = text;
  const auto step = take_number(rest, "step-");
  const auto generation = step ? take_number(rest, ".g") : std::nullopt;
  if (!generation) return std::nullopt;
  const auto revision = rest.empty() ? std::optional<std::int64_t>(1) : take_number(rest, ".r");
  if (!revision) return std::nullopt;
  const CheckpointName name{.generation = *generation, .step = *step, .revision = *revision};
  return to_text(name) == text ? std::optional(name) : std::nullopt;
}

std::uint32_t checksum(std::span<const std::byte> bytes) {
  return static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

std::uint32_t combine_checksums(std::uint32_t first, std::uint32_t second,
                                std::uint64_t second_bytes) {
  return static_cast<std::uint32_t>(
      crc32_combine(first, second, static_cast<z_off_t>(second_bytes)));
}

std::string encode(const Manifest& manifest) {
  ordered_json body = body_of(manifest);
  const std::string text = dump(body);
  body["crc32"] = to_hex(checksum(std::as_bytes(std::span(text))));
  return dump(body) + "\n";
}

Manifest decode_manifest(std::string_view text, std::string_view where) {
  const json parsed = parse_json_object(text, kMaxDepth, where);
  JsonFields fields(parsed, std::string(where));
  const std::int64_t version = fields.integer("version", 1);
  if (version > kFormatVersion) {
    refuse(where, fmt::format("format version {} is newer than this program reads ({})", version,
                              kFormatVersion));
  }
  Manifest manifest;
  manifest.name = {.generation = fields.integer("generation"),
                   .step = fields.integer("step"),
                   .revision = fields.integer("revision", 1)};
  manifest.fingerprint = fields.text("fingerprint");
  const json& files = fields.array("files");
  if (files.size() > kMaxFiles) refuse(where, fmt::format("more than {} files", kMaxFiles));
  for (const json& file : files) manifest.files.push_back(decode_file(file, where));
  fields.crc32("crc32");
  fields.finish();
  if (encode(manifest) != text) refuse(where, "checksum of the manifest itself is wrong");
  return manifest;
}

}  // namespace coxswain::checkpoint
