#include "trainer/data/file_bytes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>

#include "trainer/contract/error.h"

namespace coxswain::data {

namespace {

constexpr std::size_t kShownCharacters = 80;

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int value() const { return value_; }

 private:
  int value_;
};

std::int64_t nanoseconds(const timespec& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

}  // namespace

std::string shown(const std::filesystem::path& path) {
  std::string text;
  for (const char c : path.native()) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f && c != '\\') {
      text += c;
    } else {
      text += fmt::format("\\x{:02x}", byte);
    }
  }
  if (text.size() > kShownCharacters) {
    text = "..." + text.substr(text.size() - (kShownCharacters - 3));
  }
  return text;
}

void refuse(const std::filesystem::path& path, const std::string& why) {
  throw Error(ExitCode::kBadInput, fmt::format("[data] {}: {}", shown(path), why));
}

void require_directory(const std::filesystem::path& directory, const std::string& expected,
                       std::string_view key) {
  struct stat status{};
  if (stat(directory.c_str(), &status) != 0) {
    refuse(directory,
           fmt::format("{}; set {} to the directory with {}", std::strerror(errno), key, expected));
  }
  if (!S_ISDIR(status.st_mode)) {
    refuse(directory,
           fmt::format("not a directory; set {} to the directory with {}", key, expected));
  }
}

bool lies_within(const std::filesystem::path& folder, const std::filesystem::path& path) {
  return std::ranges::mismatch(folder, path).in1 == folder.end();
}

bool is_present(const std::filesystem::path& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) == 0) return true;
  if (errno == ENOENT) return false;
  refuse(path, std::strerror(errno));
}

namespace {

// Why the file ends before; empty: it does not.
std::string problem_of_reading(int descriptor, std::span<std::uint8_t> bytes,
                               const std::filesystem::path& path) {
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t count = read(descriptor, bytes.data() + filled, bytes.size() - filled);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      throw Error(ExitCode::kVolume, fmt::format("[data] {}: cannot read at byte {}: {}",
                                                 shown(path), filled, std::strerror(errno)));
    }
    if (count == 0) {
      return fmt::format("changed while it was read: {} of {} bytes", filled, bytes.size());
    }
    filled += static_cast<std::size_t>(count);
  }
  return "";
}

}  // namespace

void read_exactly(int descriptor, std::span<std::uint8_t> bytes,
                  const std::filesystem::path& path) {
  const std::string problem = problem_of_reading(descriptor, bytes, path);
  if (!problem.empty()) refuse(path, problem);
}

FileStamp stamp_of(const struct stat& status) {
  return {static_cast<std::uint64_t>(status.st_size), nanoseconds(status.st_mtim)};
}

std::int64_t file_time() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return nanoseconds(now);
}

FileContent content_of(const std::filesystem::path& path) {
  struct stat status{};
  // The type is asked before opening: opening a device or a FIFO can have effects of its own.
  const auto refused = [](std::string problem) {
    return FileContent{.bytes = {}, .problem = std::move(problem), .stamp = {}};
  };
  if (stat(path.c_str(), &status) != 0) return refused(std::strerror(errno));
  if (!S_ISREG(status.st_mode)) {
    return refused(fmt::format("{}, not a regular file", kind_of(status.st_mode)));
  }
  const Descriptor file(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (file.value() < 0 || fstat(file.value(), &status) != 0) return refused(std::strerror(errno));
  FileContent content{.bytes = std::vector<std::uint8_t>(static_cast<std::size_t>(status.st_size)),
                      .problem = "",
                      .stamp = stamp_of(status),
                      .changed = nanoseconds(status.st_ctim)};
  content.problem = problem_of_reading(file.value(), content.bytes, path);
  if (!content.problem.empty()) content.bytes.clear();
  return content;
}

std::vector<std::uint8_t> read_file(const std::filesystem::path& path) {
  FileContent content = content_of(path);
  if (!content.problem.empty()) refuse(path, content.problem);
  return std::move(content.bytes);
}

void write_whole(const std::filesystem::path& path, std::span<const std::uint8_t> bytes) {
  const auto fail = [&](const std::string& name) {
    const int cause = errno;
    unlink(name.c_str());
    throw Error(ExitCode::kVolume,
                fmt::format("[data] {}: cannot write: {}", shown(path), std::strerror(cause)));
  };
  std::string name = path.native() + ".XXXXXX";
  const Descriptor file(mkostemp(name.data(), O_CLOEXEC));
  if (file.value() < 0) fail("");
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count = write(file.value(), bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail(name);
    done += static_cast<std::size_t>(count);
  }
  if (fchmod(file.value(), 0644) != 0 || rename(name.c_str(), path.c_str()) != 0) fail(name);
}

}  // namespace coxswain::data
