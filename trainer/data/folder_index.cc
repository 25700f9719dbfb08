#include "trainer/data/folder_index.h"

#include <algorithm>
#include <cstring>

#include "trainer/tensor/fnv1a.h"

namespace coxswain::data {

namespace {

constexpr std::string_view kMagic = "coxswain index 2";
constexpr std::size_t kMostName = 65536;

void put(std::vector<std::uint8_t>& out, std::uint64_t value) {
  for (int shift = 0; shift < 64; shift += 8)
    out.push_back(static_cast<std::uint8_t>(value >> shift));
}

void put(std::vector<std::uint8_t>& out, std::string_view text) {
  put(out, text.size());
  out.insert(out.end(), text.begin(), text.end());
}

std::uint64_t hash_of(std::span<const std::uint8_t> bytes) {
  tensor::Fnv1a hash;
  std::size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, 8);
    hash.add_long(word);
  }
  for (; at < bytes.size(); ++at) hash.add(std::uint32_t{bytes[at]});
  return hash.hash();
}

// Takes numbers and texts off the front; `good` is false once there was less than asked for.
struct Parser {
  std::span<const std::uint8_t> left;
  bool good = true;

  std::uint64_t number() {
    if (left.size() < 8) return stop();
    std::uint64_t value = 0;
    for (std::size_t i = 8; i-- > 0;) value = value << 8 | left[i];
    left = left.subspan(8);
    return value;
  }
  // No more of anything than there are bytes left, so that no count takes memory.
  std::uint64_t count() {
    const std::uint64_t value = number();
    return value <= left.size() / 8 ? value : stop();
  }
  std::string_view text() {
    const std::uint64_t size = number();
    if (size > left.size() || size > kMostName) {
      stop();
      return {};
    }
    const auto part = left.first(static_cast<std::size_t>(size));
    left = left.subspan(part.size());
    return {reinterpret_cast<const char*>(part.data()), part.size()};
  }

 private:
  std::uint64_t stop() {
    good = false;
    left = {};
    return 0;
  }
};

void read_folders(Parser& parser, FolderIndex& index) {
  for (std::uint64_t i = parser.count(); i-- > 0 && parser.good;) {
    FolderIndex::Folder folder;
    folder.path = parser.text();
    folder.seconds = static_cast<std::int64_t>(parser.number());
    folder.nanoseconds = static_cast<std::int64_t>(parser.number());
    index.add_folder(std::move(folder));
  }
}

void read_classes(Parser& parser, FolderIndex& index) {
  for (std::uint64_t i = parser.count(); i-- > 0 && parser.good;) {
    index.add_class(std::string(parser.text()));
    const std::uint64_t files = parser.count();
    if (files == 0) parser.good = false;
    for (std::uint64_t file = 0; file < files && parser.good; ++file) {
      const std::string_view name = parser.text();
      const std::uint64_t bytes = parser.number();
      index.add_file(name, {bytes, static_cast<std::int64_t>(parser.number())});
    }
  }
}

}  // namespace

std::int32_t FolderIndex::label(std::int64_t file) const {
  const auto after = std::ranges::upper_bound(firsts_, file);
  return static_cast<std::int32_t>(after - firsts_.begin() - 1);
}

std::string FolderIndex::path(std::int64_t file) const {
  const auto at = static_cast<std::size_t>(file);
  const std::uint64_t begin = at == 0 ? 0 : ends_[at - 1];
  std::string path = classes_[static_cast<std::size_t>(label(file))];
  path += '/';
  return path.append(names_, begin, ends_[at] - begin);
}

void FolderIndex::add_class(std::string name) {
  classes_.push_back(std::move(name));
  firsts_.push_back(size());
}

void FolderIndex::add_file(std::string_view name, FileStamp stamp) {
  names_ += name;
  ends_.push_back(names_.size());
  stamps_.push_back(stamp);
}

std::vector<std::uint8_t> encode(const FolderIndex& index) {
  std::vector<std::uint8_t> out;
  put(out, kMagic);
  put(out, index.folders().size());
  for (const FolderIndex::Folder& folder : index.folders()) {
    put(out, folder.path);
    put(out, static_cast<std::uint64_t>(folder.seconds));
    put(out, static_cast<std::uint64_t>(folder.nanoseconds));
  }
  put(out, index.classes().size());
  std::int64_t file = 0;
  for (std::size_t c = 0; c < index.classes().size(); ++c) {
    put(out, index.classes()[c]);
    const std::int64_t first = file;
    while (file < index.size() && index.label(file) == static_cast<std::int32_t>(c)) ++file;
    put(out, static_cast<std::uint64_t>(file - first));
    for (std::int64_t i = first; i < file; ++i) {
      put(out, std::string_view(index.path(i)).substr(index.classes()[c].size() + 1));
      put(out, index.stamp(i).bytes);
      put(out, static_cast<std::uint64_t>(index.stamp(i).written));
    }
  }
  put(out, hash_of(out));
  return out;
}

std::optional<FolderIndex> decode_index(std::span<const std::uint8_t> bytes) {
  if (bytes.size() < 8) return std::nullopt;
  const auto content = bytes.first(bytes.size() - 8);
  if (Parser{bytes.last(8)}.number() != hash_of(content)) return std::nullopt;
  Parser parser{content};
  if (parser.text() != kMagic) return std::nullopt;
  FolderIndex index;
  read_folders(parser, index);
  read_classes(parser, index);
  if (!parser.good || !parser.left.empty() || index.size() == 0) return std::nullopt;
  return index;
}

}  // namespace coxswain::data
