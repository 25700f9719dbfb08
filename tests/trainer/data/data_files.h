#pragma once

#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "trainer/contract/error.h"
#include "trainer/data/dataset.h"

// Builds the files that the readers are tested with.
namespace coxswain::test {

using Bytes = std::vector<std::uint8_t>;

// An image's bytes, (H, W, C).
inline Bytes bytes_of(const data::Dataset& dataset, std::int64_t id) {
  Bytes scratch;
  const std::span<const std::uint8_t> bytes = dataset.read(id, scratch).bytes;
  return {bytes.begin(), bytes.end()};
}

// Why it is a bad sample, or "none".
inline std::string problem_of(const data::Dataset& dataset, std::int64_t id) {
  try {
    bytes_of(dataset, id);
  } catch (const data::BadSample& bad) {
    return bad.what();
  }
  return "none";
}

inline void append_big_endian(Bytes& bytes, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes.push_back(static_cast<std::uint8_t>(value >> shift));
  }
}

// `count` images whose pixels are record * 10 + place, modulo 256.
inline Bytes idx_images(std::uint32_t count, std::uint32_t rows, std::uint32_t columns) {
  Bytes bytes;
  for (const std::uint32_t value : {2051U, count, rows, columns}) append_big_endian(bytes, value);
  for (std::uint32_t i = 0; i < count; ++i) {
    for (std::uint32_t k = 0; k < rows * columns; ++k) {
      bytes.push_back(static_cast<std::uint8_t>(i * 10 + k));
    }
  }
  return bytes;
}

// Labels 0, 1, ..., 9, 0, ...
inline Bytes idx_labels(std::uint32_t count) {
  Bytes bytes;
  for (const std::uint32_t value : {2049U, count}) append_big_endian(bytes, value);
  for (std::uint32_t i = 0; i < count; ++i) bytes.push_back(static_cast<std::uint8_t>(i % 10));
  return bytes;
}

// Records with label i % 10; pixels are record + place, modulo 256.
inline Bytes cifar_records(int count) {
  Bytes bytes;
  for (int i = 0; i < count; ++i) {
    bytes.push_back(static_cast<std::uint8_t>(i % 10));
    for (int k = 0; k < 3072; ++k) bytes.push_back(static_cast<std::uint8_t>(i + k));
  }
  return bytes;
}

inline Bytes gzipped(const Bytes& bytes) {
  z_stream z{};
  if (deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::runtime_error("deflateInit2");
  }
  Bytes out(deflateBound(&z, bytes.size()));
  z.next_in = const_cast<Bytef*>(bytes.data());
  z.avail_in = static_cast<uInt>(bytes.size());
  z.next_out = out.data();
  z.avail_out = static_cast<uInt>(out.size());
  const int code = deflate(&z, Z_FINISH);
  out.resize(z.total_out);
  deflateEnd(&z);
  if (code != Z_STREAM_END) throw std::runtime_error("deflate");
  return out;
}

inline Bytes first_bytes(Bytes bytes, std::size_t count) {
  bytes.resize(count);
  return bytes;
}

inline Bytes with_byte(Bytes bytes, std::size_t offset, std::uint8_t value) {
  bytes.at(offset) = value;
  return bytes;
}

inline void write_file(const std::filesystem::path& path, const Bytes& bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  if (!out.flush()) throw std::runtime_error("cannot write " + path.string());
}

// The message of the Error that `act` throws, after its exit code: "65 [data] ...". `hidden`, a
// directory that differs from run to run, reads as "DIR".
template <typename Act>
std::string error_of(Act act, const std::filesystem::path& hidden = {}) {
  try {
    act();
  } catch (const Error& error) {
    std::string text = std::to_string(static_cast<int>(error.code())) + " " + error.what();
    const std::string name = hidden.string();
    for (std::size_t at = 0; !name.empty() && (at = text.find(name)) != std::string::npos;) {
      text.replace(at, name.size(), "DIR");
    }
    return text;
  }
  return "no error";
}

}  // namespace coxswain::test
