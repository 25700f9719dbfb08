#include "trainer/checkpoint/file_system.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "trainer/contract/error.h"

namespace coxswain::checkpoint {

namespace {

[[noreturn]] void fail(std::string_view call, const FileSystem::Path& path, std::error_code error) {
  throw Error(ExitCode::kVolume,
              fmt::format("[checkpoint] cannot {} {}: {}", call, path.string(), error.message()));
}

[[noreturn]] void refuse_file(const FileSystem::Path& path, std::string_view reason) {
  throw Error(ExitCode::kBadInput, fmt::format("[checkpoint] {} is {}", path.string(), reason));
}

std::error_code last_error() { return {errno, std::generic_category()}; }

// Repeats a call that a signal interrupted.
template <typename Call>
auto retried(Call call) {
  while (true) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

}  // namespace

OpenFile::~OpenFile() {
  if (descriptor >= 0) ::close(descriptor);
}

void PosixFileSystem::make_directories(const Path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) fail("make", path, error);
}

bool PosixFileSystem::make_directory(const Path& path) {
  if (::mkdir(path.c_str(), 0777) == 0) return true;
  if (errno == EEXIST) return false;
  fail("make", path, last_error());
}

bool PosixFileSystem::is_directory(const Path& path) {
  std::error_code error;
  const auto status = std::filesystem::symlink_status(path, error);
  const bool is_none =
      error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
  if (error && !is_none) fail("look at", path, error);
  return std::filesystem::is_directory(status);
}

std::optional<std::vector<std::string>> PosixFileSystem::list(const Path& path) {
  std::error_code error;
  std::filesystem::directory_iterator entry(path, error);
  if (error == std::errc::no_such_file_or_directory) return std::nullopt;
  if (error == std::errc::not_a_directory) refuse_file(path, "not a directory");
  std::vector<std::string> names;
  while (!error && entry != std::filesystem::directory_iterator()) {
    names.push_back(entry->path().filename().string());
    entry.increment(error);
  }
  if (error) fail("list", path, error);
  return names;
}

OpenFile PosixFileSystem::create(const Path& path) {
  const int descriptor = retried([&] {
    return ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  });
  if (descriptor < 0) fail("create", path, last_error());
  return {descriptor, path, 0};
}

OpenFile PosixFileSystem::open(const Path& path) {
  // O_NONBLOCK: a FIFO must not wait for a writer.
  const int descriptor =
      retried([&] { return ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC); });
  if (descriptor < 0) {
    if (errno == ELOOP) refuse_file(path, "a link, not a regular file");
    if (errno == ENOENT) refuse_file(path, "missing");
    if (errno == ENXIO) refuse_file(path, "not a regular file");  // a socket
    fail("open", path, last_error());
  }
  OpenFile file(descriptor, path, 0);
  struct stat status{};
  if (::fstat(descriptor, &status) != 0) fail("look at", path, last_error());
  if (!S_ISREG(status.st_mode)) refuse_file(path, "not a regular file");
  file.bytes = static_cast<std::uint64_t>(status.st_size);
  return file;
}

std::size_t PosixFileSystem::write(OpenFile& file, std::span<const std::byte> bytes) {
  const auto written =
      retried([&] { return ::write(file.descriptor, bytes.data(), bytes.size()); });
  if (written < 0) fail("write", file.path, last_error());
  return static_cast<std::size_t>(written);
}

std::size_t PosixFileSystem::read(OpenFile& file, std::span<std::byte> bytes) {
  const auto count = retried([&] { return ::read(file.descriptor, bytes.data(), bytes.size()); });
  if (count < 0) fail("read", file.path, last_error());
  return static_cast<std::size_t>(count);
}

void PosixFileSystem::sync(OpenFile& file) {
  if (::fsync(file.descriptor) != 0) fail("sync", file.path, last_error());
  // Reading back then asks the device, and the cache is left to the data set. Advice: may be
  // ignored.
  ::posix_fadvise(file.descriptor, 0, 0, POSIX_FADV_DONTNEED);
}

void PosixFileSystem::close(OpenFile& file) {
  if (::close(std::exchange(file.descriptor, -1)) != 0) fail("close", file.path, last_error());
}

void PosixFileSystem::sync_directory(const Path& path) {
  const int descriptor =
      retried([&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (descriptor < 0) fail("open", path, last_error());
  const OpenFile directory(descriptor, path, 0);
  // Some network file systems can't sync a directory, and say EINVAL.
  if (::fsync(descriptor) != 0 && errno != EINVAL) fail("sync", path, last_error());
}

void PosixFileSystem::rename(const Path& from, const Path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) fail("rename", from, last_error());
}

void PosixFileSystem::remove(const Path& path) {
  if (::remove(path.c_str()) != 0) fail("remove", path, last_error());
}

}  // namespace coxswain::checkpoint
