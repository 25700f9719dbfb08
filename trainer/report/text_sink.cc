#include "trainer/report/text_sink.h"

#include <limits.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

namespace coxswain::report {

namespace {

constexpr int kDefaultWidth = 80;

bool has_room(int file_descriptor, std::chrono::milliseconds patience) {
  pollfd wanted{.fd = file_descriptor, .events = POLLOUT, .revents = 0};
  return poll(&wanted, 1, static_cast<int>(patience.count())) == 1;
}

}  // namespace

TextSink::TextSink(int file_descriptor, std::optional<int> columns)
    : file_descriptor_(file_descriptor),
      columns_(columns),
      terminal_(isatty(file_descriptor) == 1) {}

void TextSink::write(std::string_view text, std::chrono::milliseconds patience) {
  if (text.empty() || broken_) return;
  // One slow moment is waited for; a reader that stays slow is not, or it would set the pace of
  // training.
  if (dropping_ && patience < kLastWordsPatience) patience = std::chrono::milliseconds(0);
  if (cut_ && !write_all("\n", patience)) return;
  write_all(text, patience);
}

bool TextSink::write_all(std::string_view text, std::chrono::milliseconds patience) {
  const std::size_t size = text.size();
  while (!text.empty()) {
    if (!has_room(file_descriptor_, patience)) {
      dropping_ = true;
      cut_ = cut_ || text.size() < size;
      return false;
    }
    // Room is promised for PIPE_BUF bytes alone; more could block.
    const std::size_t length = std::min<std::size_t>(text.size(), PIPE_BUF);
    const ssize_t written = ::write(file_descriptor_, text.data(), length);
    if (written < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (written <= 0) {
      broken_ = true;
      return false;
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  dropping_ = false;
  cut_ = false;
  return true;
}

int TextSink::width() const {
  if (columns_ && *columns_ > 0) return *columns_;
  winsize size{};
  if (ioctl(file_descriptor_, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kDefaultWidth;
  return size.ws_col;
}

void let_writes_fail() {
  for (const int number : {SIGPIPE, SIGXFSZ}) std::signal(number, SIG_IGN);
}

}  // namespace coxswain::report
