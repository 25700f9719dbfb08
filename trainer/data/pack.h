#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "trainer/contract/words.h"
#include "trainer/data/dataset.h"

namespace coxswain::data {

// How an image lies in a record: as the file that it was, or made anew; raw are the bytes of its
// pixels, (H, W, C).
enum class Encoding { kKeep, kJpeg, kPng, kRaw };
constexpr Words<Encoding, 4> words_of(Encoding) {
  return {{{Encoding::kKeep, "keep"},
           {Encoding::kJpeg, "jpeg"},
           {Encoding::kPng, "png"},
           {Encoding::kRaw, "raw"}}};
}

struct PackOptions {
  Encoding encoding = Encoding::kKeep;
  std::int64_t shorter_side = 0;  // made as long; 0: as it is
  int quality = 95;               // of JPEG
  int shards = 1;
  int workers = 1;
};

using Progress = std::function<void(std::int64_t done, std::int64_t of)>;

// Writes a dataset as .rec, and .idx beside it, in its order, as MXNet's im2rec does; with shards,
// NAME-00000-of-00004.rec and so on. The same bytes for any number of workers; a file is there
// completely or not at all. Returns their names.
std::vector<std::filesystem::path> pack(const Dataset& dataset, const std::filesystem::path& to,
                                        const PackOptions& options, const Progress& progress);

// Value. What was found of a file.
struct Checked {
  std::int64_t records = 0;
  std::map<std::int32_t, std::int64_t> classes;  // label -> records
  std::map<std::string, std::int64_t> kinds;     // "JPEG", "PNG", "raw of 784 bytes" -> records
  std::int64_t bad = 0;
  std::vector<std::string> first_bad;
};

// Reads and decodes every record. Throws Error (65) when the file itself is cut or damaged.
Checked check_records(const std::filesystem::path& file, int workers, const Progress& progress);

}  // namespace coxswain::data
