#include "trainer/checkpoint/format_npz.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace coxswain::checkpoint {

namespace {

constexpr std::uint64_t kMostZipBytes = 0xFFFF'FFFEU;  // all bits: it stands elsewhere (ZIP64)
constexpr std::uint64_t kMostZipMembers = 0xFFFEU;
constexpr std::uint64_t kLocalHeaderBytes = 30;
constexpr std::uint64_t kCentralHeaderBytes = 46;
constexpr std::uint64_t kEndBytes = 22;

constexpr int kVersion = 20;         // 2.0, what all programs know
constexpr int kFirstDate = 0x21;     // 1980-01-01: the same weights are the same bytes
constexpr int kReadWrite = 0100600;  // a regular file, of its owner
constexpr int kUnix = 3 << 8;        // whose file modes those are

template <int kBytes>
void put(std::string& to, std::uint64_t value) {
  for (int byte = 0; byte < kBytes; ++byte) to += static_cast<char>(value >> (8 * byte) & 0xFFU);
}

// What both headers of a member have alike: from the version on that a reader needs.
void put_common(std::string& to, const ZipMember& member) {
  put<2>(to, kVersion);
  put<2>(to, 0);  // flags
  put<2>(to, 0);  // stored
  put<2>(to, 0);  // time
  put<2>(to, kFirstDate);
  put<4>(to, member.crc32);
  put<4>(to, member.bytes);  // compressed
  put<4>(to, member.bytes);
  put<2>(to, member.name.size());
  put<2>(to, 0);  // extra fields
}

}  // namespace

std::string encode_npy_header(const std::vector<std::int64_t>& dims) {
  std::string shape;
  for (const std::int64_t dim : dims) shape += fmt::format("{}, ", dim);
  if (dims.size() > 1) shape.resize(shape.size() - 2);
  if (dims.size() == 1) shape.resize(shape.size() - 1);  // a tuple of one keeps its comma
  std::string text =
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}), }}", shape);
  constexpr std::size_t kPrefix = 10;
  constexpr std::size_t kAligned = 64;
  const std::size_t whole = (kPrefix + text.size() + kAligned) / kAligned * kAligned;
  text.resize(whole - kPrefix - 1, ' ');
  text += '\n';
  std::string header = "\x93NUMPY";
  put<2>(header, 1);  // 1.0
  put<2>(header, text.size());
  return header + text;
}

std::string encode_zip_header(const ZipMember& member) {
  std::string header = "PK\x03\x04";
  put_common(header, member);
  return header + member.name;
}

std::string encode_zip_end(const std::vector<ZipMember>& members, std::uint64_t offset) {
  std::string text;
  for (const ZipMember& member : members) {
    text += "PK\x01\x02";
    put<2>(text, kUnix | kVersion);
    put_common(text, member);
    put<2>(text, 0);  // a comment
    put<2>(text, 0);  // the disk
    put<2>(text, 0);  // internal attributes
    put<4>(text, std::uint64_t{kReadWrite} << 16U);
    put<4>(text, member.offset);
    text += member.name;
  }
  const std::uint64_t directory_bytes = text.size();
  text += "PK\x05\x06";
  put<4>(text, 0);  // disks
  put<2>(text, members.size());
  put<2>(text, members.size());
  put<4>(text, directory_bytes);
  put<4>(text, offset);
  put<2>(text, 0);  // a comment
  return text;
}

bool fits_zip(const std::vector<ZipMember>& members) {
  if (members.size() > kMostZipMembers) return false;
  std::uint64_t whole = kEndBytes;
  for (const ZipMember& member : members) {
    if (member.bytes > kMostZipBytes) return false;
    whole += kLocalHeaderBytes + kCentralHeaderBytes + 2 * member.name.size() + member.bytes;
  }
  return whole <= kMostZipBytes;
}

bool is_plain_name(const std::string& name) {
  constexpr std::size_t kMostCharacters = 200;
  constexpr std::string_view kFits =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
  return !name.empty() && name.size() <= kMostCharacters && name.front() != '.' &&
         name.front() != '-' &&
         std::ranges::all_of(name, [&](char c) { return kFits.find(c) != kFits.npos; });
}

}  // namespace coxswain::checkpoint
