#include "trainer/data/pack.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>

#include "trainer/augment/resize.h"
#include "trainer/contract/error.h"
#include "trainer/data/file_bytes.h"
#include "trainer/data/record_file.h"
#include "trainer/picture/decode.h"
#include "trainer/picture/encode.h"

namespace coxswain::data {

namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<std::uint8_t>;

constexpr std::int64_t kAtOnce = 256;  // prepared together, then written in order

// Does `work(i)` for every i below `count` on so many threads; rethrows what the first one threw.
void share(std::int64_t count, int workers, const std::function<void(std::int64_t)>& work) {
  std::atomic<std::int64_t> next = 0;
  std::mutex mutex;
  std::int64_t failed = count;
  std::exception_ptr error;
  const auto run = [&] {
    for (std::int64_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (i < failed) error = std::current_exception();
        failed = std::min(failed, i);
        next = count;
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 1; i < workers; ++i) threads.emplace_back(run);
    run();
  }
  if (error != nullptr) std::rethrow_exception(error);
}

Bytes encoded(const augment::Image& image, const PackOptions& options) {
  switch (options.encoding) {
    case Encoding::kPng:
      return picture::encode_png(image);
    case Encoding::kRaw:
      return {image.bytes.begin(), image.bytes.end()};
    case Encoding::kKeep:
    case Encoding::kJpeg:
      break;
  }
  return picture::encode_jpeg(image, options.quality);
}

Bytes image_of(const Dataset& dataset, std::int64_t id, const PackOptions& options) {
  try {
    augment::Scratch scratch;
    augment::Scratch resized;
    augment::Image image = dataset.read(id, scratch);  // what no one can read is not packed either
    if (options.encoding == Encoding::kKeep && options.shorter_side == 0) {
      Bytes stored = dataset.stored(id);
      if (!stored.empty()) return stored;
    }
    if (options.shorter_side > 0) {
      const augment::Resize resize{.size = options.shorter_side,
                                   .interpolation = augment::Interpolation::kAntialias};
      const std::string problem = resize.problem(image.shape);
      if (!problem.empty()) throw BadSample(problem);
      image = resize.settle(image, resized);
    }
    return encoded(image, options);
  } catch (const BadSample& bad) {
    throw Error(bad.code(), fmt::format("[pack] {}: {}", dataset.name(id), bad.what()));
  }
}

// A file under a name of its own until it is whole.
class NewFile {
 public:
  explicit NewFile(fs::path path) : path_(std::move(path)), name_(path_.native() + ".part") {
    descriptor_ = open(name_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (descriptor_ < 0) fail();
  }
  ~NewFile() {
    if (descriptor_ >= 0) close(descriptor_);
    if (!published_) unlink(name_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void append(std::span<const std::uint8_t> bytes) {
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t count = write(descriptor_, bytes.data() + done, bytes.size() - done);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) fail();
      done += static_cast<std::size_t>(count);
    }
    size_ += bytes.size();
  }
  std::uint64_t size() const { return size_; }
  void publish() {
    if (fsync(descriptor_) != 0 || rename(name_.c_str(), path_.c_str()) != 0) fail();
    published_ = true;
  }

 private:
  [[noreturn]] void fail() const {
    throw Error(ExitCode::kVolume,
                fmt::format("[pack] {}: {}", shown(path_), std::strerror(errno)));
  }

  const fs::path path_;
  const std::string name_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
  bool published_ = false;
};

void write_shard(const Dataset& dataset, std::int64_t first, std::int64_t last,
                 const fs::path& path, const PackOptions& options, const Progress& progress) {
  NewFile file(path);
  std::string index;
  std::vector<Bytes> images(static_cast<std::size_t>(kAtOnce));
  Bytes records;
  for (std::int64_t from = first; from < last; from += kAtOnce) {
    const std::int64_t count = std::min(kAtOnce, last - from);
    share(count, options.workers, [&](std::int64_t i) {
      images[static_cast<std::size_t>(i)] = image_of(dataset, from + i, options);
    });
    records.clear();
    for (std::int64_t i = 0; i < count; ++i) {
      index += fmt::format("{}\t{}\n", from + i, file.size() + records.size());
      append_record(records, dataset.label(from + i), static_cast<std::uint64_t>(from + i),
                    images[static_cast<std::size_t>(i)]);
    }
    file.append(records);
    progress(from + count, dataset.size());
  }
  fs::path index_path = path;
  NewFile index_file(index_path.replace_extension(".idx"));
  index_file.append(std::span(reinterpret_cast<const std::uint8_t*>(index.data()), index.size()));
  index_file.publish();
  file.publish();
}

}  // namespace

std::vector<fs::path> pack(const Dataset& dataset, const fs::path& to, const PackOptions& options,
                           const Progress& progress) {
  std::vector<fs::path> paths;
  for (int shard = 0; shard < options.shards; ++shard) {
    fs::path path = to;
    if (options.shards > 1) {
      path.replace_filename(
          fmt::format("{}-{:05}-of-{:05}.rec", to.stem().string(), shard, options.shards));
    }
    const std::int64_t first = dataset.size() * shard / options.shards;
    const std::int64_t last = dataset.size() * (shard + 1) / options.shards;
    write_shard(dataset, first, last, path, options, progress);
    paths.push_back(path);
  }
  return paths;
}

Checked check_records(const fs::path& file, int workers, const Progress& progress) {
  const RecordFile records(file);
  Checked checked;
  checked.records = records.size();
  std::mutex mutex;
  std::map<std::int64_t, std::string> bad;
  for (std::int64_t from = 0; from < records.size(); from += kAtOnce) {
    const std::int64_t count = std::min(kAtOnce, records.size() - from);
    share(count, workers, [&](std::int64_t i) {
      Bytes bytes;
      Bytes joined;
      augment::Scratch pixels;
      const ParsedRecord parsed = parse_record(records.read(from + i, bytes), joined);
      const auto& image = parsed.record.image;
      const picture::PictureKind kind = picture::kind_of(image);
      std::string problem = parsed.problem;
      const bool is_raw = kind == picture::PictureKind::kOther && problem.empty();
      if (problem.empty() && !is_raw) problem = picture::decode(image, {}, pixels).problem;
      const std::lock_guard lock(mutex);
      ++checked.classes[records.label(from + i)];
      if (!problem.empty()) {
        bad[from + i] = problem;
      } else {
        ++checked.kinds[is_raw ? fmt::format("of {} bytes", image.size())
                        : kind == picture::PictureKind::kJpeg ? "JPEG"
                                                              : "PNG"];
      }
    });
    progress(from + count, records.size());
  }
  checked.bad = std::ssize(bad);
  for (const auto& [index, problem] : bad) {
    if (checked.first_bad.size() == 5) break;
    checked.first_bad.push_back(fmt::format("record {} {}", index, problem));
  }
  return checked;
}

}  // namespace coxswain::data
