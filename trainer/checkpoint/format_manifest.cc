#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>

#include "trainer/checkpoint/format.h"
#include "trainer/checkpoint/format_json.h"

namespace coxswain::checkpoint {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr int kManifestDepth = 4;  // files, file, chunks, checksum
constexpr std::size_t kMaxFiles = 16;
constexpr std::int64_t kMaxNumber = 999'999'999'999'999'999;  // as in names: 18 digits
constexpr std::int64_t kMaxFileBytes = std::int64_t{1} << 50;

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
                 .bytes = static_cast<std::uint64_t>(fields.integer("bytes", 0, kMaxFileBytes)),
                 .crc32 = fields.crc32("crc32")};
  const json& chunks = fields.array("chunks");
  fields.finish();
  std::uint64_t left = file.bytes;
  std::uint32_t whole = 0;
  for (const json& chunk : chunks) {
    if (!chunk.is_string()) refuse(where, in_quotes(file.name) + ": a checksum is no string");
    file.chunks.push_back(parse_hex(chunk.get_ref<const std::string&>(), where));
    const std::uint64_t size = std::min(left, kChunkBytes);
    whole = combine_checksums(whole, file.chunks.back(), size);
    left -= size;
  }
  const std::uint64_t expected = (file.bytes + kChunkBytes - 1) / kChunkBytes;
  if (file.chunks.size() != expected || whole != file.crc32) {
    refuse(where, in_quotes(file.name) + ": the checksums of its chunks don't make up its own");
  }
  return file;
}

}  // namespace

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
  const json parsed = parse_json_object(text, kManifestDepth, where);
  JsonFields fields(parsed, std::string(where));
  const std::int64_t version = fields.integer("version", 1);
  if (version > kFormatVersion) {
    refuse(where, fmt::format("format version {} is newer than this program reads ({})", version,
                              kFormatVersion));
  }
  Manifest manifest;
  manifest.name = {.generation = fields.integer("generation", 0, kMaxNumber),
                   .step = fields.integer("step", 0, kMaxNumber),
                   .revision = fields.integer("revision", 1, kMaxNumber)};
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
