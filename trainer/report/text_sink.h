#pragma once

#include <string_view>

namespace coxswain::report {

// Resource. Writes text to a file descriptor that it does not own, and never harms the run: after
// the first error, and while a pipe's reader is so slow that a write would block for long, text is
// dropped.
class TextSink {
 public:
  explicit TextSink(int file_descriptor);

  void write(std::string_view text);
  bool is_terminal() const { return terminal_; }
  int width() const;  // of the terminal, now; 80 when not known

 private:
  int file_descriptor_;
  bool terminal_;
  bool broken_ = false;
};

// Writes to a closed pipe become errors instead of ending the process. Call once in main.
void ignore_broken_pipes();

}  // namespace coxswain::report
