#pragma once

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <stdexcept>
#include <string>

namespace coxswain::report {

// The two ends of a pipe, or of a terminal; what was written can be read so far.
class Pipe {
 public:
  Pipe() {
    int ends[2];
    if (pipe(ends) != 0) throw std::runtime_error("no pipe");
    reader_ = ends[0];
    writer_ = ends[1];
  }
  ~Pipe() {
    close_reader();
    close(writer_);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  int writer() const { return writer_; }
  void close_reader() {
    if (reader_ >= 0) close(reader_);
    reader_ = -1;
  }

  std::string read_so_far() const {
    std::string text;
    char buffer[4096];
    pollfd readable{.fd = reader_, .events = POLLIN, .revents = 0};
    while (poll(&readable, 1, 0) == 1) {
      const ssize_t size = read(reader_, buffer, sizeof(buffer));
      if (size <= 0) break;
      text.append(buffer, static_cast<std::size_t>(size));
    }
    return text;
  }

 private:
  int reader_ = -1;
  int writer_ = -1;
};

}  // namespace coxswain::report
