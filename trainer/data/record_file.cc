#include "trainer/data/record_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "trainer/contract/error.h"

namespace coxswain::data {

namespace {

namespace fs = std::filesystem;

}  // namespace

RecordFile::RecordFile(const fs::path& path, Keep keep) : path_(path) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) refuse(path, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) refuse(path, "not a regular file");
  descriptor_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) refuse(path, std::strerror(errno));
  stamp_ = stamp_of(status);
  try {
    if (keep == Keep::kAll) keep_all();
    find_records();
    find_part_size();
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

RecordFile::~RecordFile() { close(descriptor_); }

std::size_t RecordFile::read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const {
  if (!kept_.empty()) {
    const auto kept = std::span(kept_).subspan(offset);
    const std::size_t count = std::min(kept.size(), bytes.size());
    std::copy_n(kept.begin(), count, bytes.begin());
    return count;
  }
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t count = pread(descriptor_, bytes.data() + filled, bytes.size() - filled,
                                static_cast<off_t>(offset + filled));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      throw Error(ExitCode::kVolume, fmt::format("[data] {}: cannot read at byte {}: {}",
                                                 shown(path_), offset, std::strerror(errno)));
    }
    if (count == 0) break;
    filled += static_cast<std::size_t>(count);
  }
  return filled;
}

// A header of a part and of the image in it at a time; the rest is passed over.
void RecordFile::find_records() {
  const auto fail = [&](const std::string& why) {
    refuse(path_, fmt::format("record {}, at byte {}: {}", size(), offsets_.back(), why));
  };
  std::array<std::uint8_t, kPartHeader + kImageHeader> buffer{};
  for (std::uint64_t at = 0; at < stamp_.bytes;) {
    offsets_.push_back(at);
    bool is_first = true;
    for (PartKind kind = PartKind::kFirst; kind == PartKind::kFirst || kind == PartKind::kMiddle;) {
      const auto bytes = std::span(buffer).first(read_at(at, buffer));
      const ParsedPart part = parse_part(bytes);
      if (!part.problem.empty()) fail(part.problem);
      kind = part.header.kind;
      if ((kind == PartKind::kWhole || kind == PartKind::kFirst) != is_first) {
        fail(is_first ? "begins in the middle of another" : "has no last part");
      }
      const std::uint64_t left = stamp_.bytes - at - kPartHeader;
      if (part.header.size > left) {
        fail(fmt::format("ends after {} of {} bytes; copy it anew", left, part.header.size));
      }
      if (is_first) {
        const auto content = bytes.subspan(kPartHeader);
        const ParsedLabel label =
            parse_label(content.first(std::min(content.size(), part.header.size)));
        if (!label.problem.empty()) fail(label.problem);
        labels_.push_back(label.label);
      }
      at += kPartHeader + std::min<std::uint64_t>(part.header.padded(), left);
      is_first = false;
    }
  }
  if (labels_.empty()) refuse(path_, "holds no records");
  offsets_.push_back(bytes());
}

void RecordFile::find_part_size() {
  if (kept_.empty()) return;
  std::size_t size = 0;
  for (std::size_t i = 0; i < labels_.size(); ++i) {
    const PartHeader header = parse_part(std::span(kept_).subspan(offsets_[i])).header;
    if (header.kind != PartKind::kWhole || (i > 0 && header.size != size)) return;
    size = header.size;
  }
  part_size_ = size;
}

void RecordFile::add_to(tensor::Fnv1a& hash) const {
  hash.add_bytes(kept_);
  if (kept_.empty())
    for (const std::uint64_t offset : offsets_) hash.add_long(offset);
  for (const std::int32_t place : order_) hash.add(static_cast<std::uint32_t>(place));
}

void RecordFile::order_by(const fs::path& index) {
  const std::vector<std::uint8_t> bytes = read_file(index);
  const ParsedIndex parsed =
      parse_index({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!parsed.problem.empty()) refuse(index, parsed.problem);
  std::vector<std::int32_t> order;
  std::vector<bool> is_taken(labels_.size());
  const std::span starts = std::span(offsets_).first(labels_.size());
  for (const std::uint64_t position : parsed.positions) {
    const auto found = std::ranges::lower_bound(starts, position);
    const auto at = static_cast<std::size_t>(found - starts.begin());
    const bool is_there = found != starts.end() && *found == position;
    if (!is_there || is_taken[at]) {
      refuse(index,
             fmt::format("line {}: {} byte {} of {}; it is of another file: write it anew, or "
                         "remove it",
                         order.size() + 1,
                         is_there ? "lists again the record at" : "no record begins at", position,
                         shown(path_.filename())));
    }
    is_taken[at] = true;
    order.push_back(static_cast<std::int32_t>(at));
  }
  order_ = std::ranges::is_sorted(order) && order.size() == labels_.size()
               ? std::vector<std::int32_t>()
               : std::move(order);
}

void RecordFile::keep_all() {
  std::vector<std::uint8_t> all(bytes());
  require_unchanged(read_at(0, all) == all.size());
  kept_ = std::move(all);
}

// After what was read, all of it or less.
void RecordFile::require_unchanged(bool is_whole) const {
  struct stat status{};
  if (is_whole && fstat(descriptor_, &status) == 0 && stamp_of(status) == stamp_) return;
  refuse(path_, "has changed since it was opened; start anew, and leave the file as it is");
}

std::span<const std::uint8_t> RecordFile::read(std::int64_t index,
                                               std::vector<std::uint8_t>& scratch) const {
  const std::size_t at = place(index);
  const std::uint64_t size = offsets_[at + 1] - offsets_[at];
  if (!kept_.empty()) return std::span(kept_).subspan(offsets_[at], size);
  scratch.resize(size);
  require_unchanged(read_at(offsets_[at], scratch) == size);
  return scratch;
}

namespace {

// As for pictures in a folder: what is trained on is what the folder holds.
void require_no_way_out(const fs::path& folder, const fs::path& file) {
  std::error_code failed;
  const fs::path real = fs::canonical(file, failed);
  if (failed || lies_within(fs::canonical(folder), real)) return;  // reading says what failed
  refuse(file, fmt::format("a link out of the folder, to {}; name that file itself, or copy it",
                           shown(real)));
}

std::vector<fs::path> files_in(const fs::path& path, const std::string& name,
                               std::string_view key) {
  require_directory(path, name + ".rec, or name the file itself", key);
  if (is_present(path / (name + ".rec"))) return {path / (name + ".rec")};
  std::vector<fs::path> shards;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(path, failed)) {
    const std::string file = entry.path().filename();
    const bool is_shard = file.starts_with(name + "-") && file.ends_with(".rec");
    if (is_shard) shards.push_back(entry.path());
  }
  if (failed) refuse(path, failed.message());
  if (shards.empty()) {
    refuse(path, fmt::format("neither {}.rec nor {}-00000-of-*.rec is there; set {} to the folder "
                             "or the file",
                             name, name, key));
  }
  std::ranges::sort(shards);
  // "train-00000-of-00004.rec": a shard that is missing would be missed by nobody.
  const std::string last = shards.back().stem();
  const std::size_t of = last.rfind("-of-");
  const std::string count = of == std::string::npos ? "" : last.substr(of + 4);
  if (!count.empty() && count != fmt::format("{:05}", shards.size())) {
    refuse(path, fmt::format("{} of the {} files {}-*.rec are there", shards.size(), count, name));
  }
  return shards;
}

}  // namespace

std::vector<fs::path> record_files(const fs::path& path, const std::string& name,
                                   std::string_view key) {
  if (path.extension() == ".rec") return {path};
  std::vector<fs::path> files = files_in(path, name, key);
  for (const fs::path& file : files) {
    require_no_way_out(path, file);
    require_no_way_out(path, fs::path(file).replace_extension(".idx"));
  }
  return files;
}

}  // namespace coxswain::data
