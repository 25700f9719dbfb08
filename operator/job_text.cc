#include "operator/job_text.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "trainer/contract/error.h"
#include "trainer/contract/worker/child_process.h"

namespace coxswain {

namespace {

constexpr std::size_t kMaxBytes = (1 << 20) + 1;  // one more than the reader takes
constexpr int kPatienceSeconds = 10;              // for whoever writes into a pipe

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& why) {
  const std::string name = file == "-" ? "standard input" : file.string();
  throw Error(ExitCode::kBadInput, fmt::format("{}: can't read the job: {}", name, why));
}

contract::FileDescriptor open_file(const std::filesystem::path& file) {
  contract::FileDescriptor opened(
      file == "-" ? dup(STDIN_FILENO) : open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (opened.get() < 0) refuse(file, std::strerror(errno));
  return opened;
}

void wait_for_bytes(int descriptor, const std::filesystem::path& file) {
  pollfd bytes{.fd = descriptor, .events = POLLIN, .revents = 0};
  if (poll(&bytes, 1, file == "-" ? -1 : kPatienceSeconds * 1000) == 0)
    refuse(file, fmt::format("nobody wrote into this pipe for {} s", kPatienceSeconds));
}

}  // namespace

std::string read_job_text(const std::filesystem::path& file) {
  const contract::FileDescriptor opened = open_file(file);
  std::string text(kMaxBytes, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    wait_for_bytes(opened.get(), file);
    const ssize_t got = read(opened.get(), text.data() + size, text.size() - size);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) refuse(file, std::strerror(errno));
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  text.resize(size);
  return text;
}

}  // namespace coxswain
