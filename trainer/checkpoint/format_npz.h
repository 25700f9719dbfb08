#pragma once

#include <cstdint>
#include <string>
#include <vector>

// What NumPy reads with numpy.load: a ZIP archive of .npy files, stored as they are. PURE.
namespace coxswain::checkpoint {

// Value. One file of an archive.
struct ZipMember {
  std::string name;
  std::uint32_t crc32 = 0;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;  // of its header in the archive
};

// What is before a tensor's float32 values (NEP 1, version 1.0): row-major, little-endian.
std::string encode_npy_header(const std::vector<std::int64_t>& dims);

// What is before a member's bytes, and what ends the archive (APPNOTE.TXT 4.3.7, 4.3.12, 4.3.16).
// Without ZIP64: only what fits_zip() can be written.
std::string encode_zip_header(const ZipMember& member);
std::string encode_zip_end(const std::vector<ZipMember>& members, std::uint64_t offset);

// Of members of 65,535 at most, each and all together below 4 GiB.
bool fits_zip(const std::vector<ZipMember>& members);

// Names that every program unpacks to one file in the directory that it is in.
bool is_plain_name(const std::string& name);

}  // namespace coxswain::checkpoint
