#include "trainer/launch/output_copy.h"

#include <fcntl.h>
#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string_view>

namespace coxswain::launch {

namespace {

using contract::FileDescriptor;

constexpr std::size_t kMostBytes = 32 << 20;
// What a pipe that is ready takes at once (PIPE_BUF).
constexpr std::size_t kReadAtOnce = 4096;
constexpr std::string_view kBegunAnew = "(what came before was more than this file keeps)\n";

// {the command's end, ours}; none where no terminal can be had.
std::pair<FileDescriptor, FileDescriptor> make_terminal() {
  FileDescriptor ours(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (ours.get() < 0 || grantpt(ours.get()) != 0 || unlockpt(ours.get()) != 0) return {};
  std::array<char, 64> name{};
  if (ptsname_r(ours.get(), name.data(), name.size()) != 0) return {};
  FileDescriptor given(open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC));
  termios settings{};
  if (given.get() < 0 || tcgetattr(given.get(), &settings) != 0) return {};
  cfmakeraw(&settings);  // bytes go through as they are
  tcsetattr(given.get(), TCSANOW, &settings);
  fcntl(ours.get(), F_SETFL, O_NONBLOCK);
  return {std::move(given), std::move(ours)};
}

bool takes(int descriptor) {
  pollfd target{.fd = descriptor, .events = POLLOUT, .revents = 0};
  return poll(&target, 1, 0) != 0;  // one that is broken takes everything, and loses it
}

}  // namespace

OutputFile::OutputFile(const std::filesystem::path& file)
    : file_(open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600)) {}

void OutputFile::add(std::string_view bytes) {
  if (!is_open()) return;
  bool kept = true;
  if (kept_ + bytes.size() > kMostBytes) {
    kept = ftruncate(file_.get(), 0) == 0 &&
           write(file_.get(), kBegunAnew.data(), kBegunAnew.size()) > 0;
    kept_ = kBegunAnew.size();
  }
  const auto size = static_cast<ssize_t>(bytes.size());
  kept = kept && write(file_.get(), bytes.data(), bytes.size()) == size;
  kept_ += bytes.size();
  if (!kept) file_.close();
}

OutputCopy::OutputCopy(const std::filesystem::path& file) : file_(file) {
  if (!file_.is_open()) return;
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    Stream& stream = streams_[i];
    stream.target = i == 0 ? STDOUT_FILENO : STDERR_FILENO;
    if (isatty(stream.target) != 0) {
      std::tie(stream.given, stream.source) = make_terminal();
      continue;
    }
    contract::Pipe pipe = contract::make_pipe();
    stream.given = std::move(pipe.in);
    stream.source = std::move(pipe.out);
  }
}

void OutputCopy::started() {
  for (Stream& stream : streams_) stream.given.close();
}

std::vector<int> OutputCopy::descriptors() const {
  std::vector<int> all;
  for (const Stream& stream : streams_)
    if (stream.source.get() >= 0 && !stream.waits) all.push_back(stream.source.get());
  return all;
}

bool OutputCopy::waits() const {
  return std::ranges::any_of(streams_, [](const Stream& stream) { return stream.waits; });
}

void OutputCopy::copy() {
  for (Stream& stream : streams_)
    while (copy_some(stream)) {
    }
}

// False: there is no more, or nobody takes it now.
bool OutputCopy::copy_some(Stream& stream) {
  stream.waits = false;
  if (stream.source.get() < 0) return false;
  if (!takes(stream.target)) {
    stream.waits = true;
    return false;
  }
  std::array<char, kReadAtOnce> piece;
  const ssize_t got = read(stream.source.get(), piece.data(), piece.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (got <= 0) {  // a terminal that nobody holds any more says EIO
    stream.source.close();
    return false;
  }
  const auto size = static_cast<std::size_t>(got);
  file_.add({piece.data(), size});
  for (std::size_t done = 0; done < size;) {
    const ssize_t put = write(stream.target, piece.data() + done, size - done);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) break;  // nobody reads it: the file has it
    done += static_cast<std::size_t>(put);
  }
  return true;
}

void OutputCopy::finish(std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  copy();
  while (waits() && std::chrono::steady_clock::now() < deadline) {
    for (const Stream& stream : streams_) {
      pollfd target{.fd = stream.target, .events = POLLOUT, .revents = 0};
      if (stream.waits) poll(&target, 1, 50);
    }
    copy();
  }
}

}  // namespace coxswain::launch
