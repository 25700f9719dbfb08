#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trainer/data/file_bytes.h"
#include "trainer/data/record.h"
#include "trainer/tensor/fnv1a.h"

namespace coxswain::data {

// Whether a file's bytes are kept in memory, and read without the kernel.
enum class Keep { kNothing, kAll };

// Resource. A .rec file whose records have been found: of one that is not kept by their headers
// alone, and an image of a million takes 12 bytes. Reading is thread-safe.
class RecordFile {
 public:
  // Throws Error (65) with the record and the byte when the file is cut, holds no records, or a
  // label that is no class.
  explicit RecordFile(const std::filesystem::path& path, Keep keep = Keep::kNothing);
  ~RecordFile();
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  // Takes the records that a .idx lists, in its order. Throws Error (65) with its line when it is
  // not of this file.
  void order_by(const std::filesystem::path& index);

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t bytes() const { return stamp_.bytes; }
  std::int64_t size() const { return std::ssize(order_.empty() ? labels_ : order_); }
  std::int32_t label(std::int64_t index) const { return labels_[place(index)]; }
  // Of its bytes where they are kept, else of where each record lies; and of the order.
  void add_to(tensor::Fnv1a& hash) const;
  // Its bytes as they are stored, for parse_record: of the file's own memory where it is kept, else
  // in `scratch`. Throws Error (65) when the file has changed.
  std::span<const std::uint8_t> read(std::int64_t index, std::vector<std::uint8_t>& scratch) const;
  // Its image, in the file's own memory, where the file is kept and all records are whole and of
  // one size, as raw images are; else nothing. The header is not fetched from memory for it.
  std::span<const std::uint8_t> known_image(std::int64_t index) const {
    if (part_size_ <= kImageHeader) return {};
    const std::size_t at = place(index) * (kPartHeader + (part_size_ + 3) / 4 * 4);
    return std::span(kept_).subspan(at + kPartHeader + kImageHeader, part_size_ - kImageHeader);
  }

 private:
  void keep_all();
  void find_records();
  void find_part_size();
  void require_unchanged(bool is_whole) const;
  std::size_t place(std::int64_t index) const {
    const auto at = static_cast<std::size_t>(index);
    return order_.empty() ? at : static_cast<std::size_t>(order_[at]);
  }
  std::size_t read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const;

  const std::filesystem::path path_;
  int descriptor_ = -1;
  FileStamp stamp_;
  std::vector<std::uint64_t> offsets_;  // of each record, and the end
  std::vector<std::int32_t> labels_;
  std::vector<std::uint8_t> kept_;   // all bytes, or none
  std::size_t part_size_ = 0;        // of each record, all whole and kept; 0: they are not
  std::vector<std::int32_t> order_;  // places in labels_; empty: as they stand
};

// The files of one part: `path` itself when it is a .rec, else NAME.rec or NAME-*-of-*.rec in it.
// Throws Error (65) when there is none, or one of those in it is a link out of it; so for their
// .idx. `key`: that which named the path.
std::vector<std::filesystem::path> record_files(const std::filesystem::path& path,
                                                const std::string& name, std::string_view key);

}  // namespace coxswain::data
