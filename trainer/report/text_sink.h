#pragma once

#include <chrono>
#include <optional>
#include <string_view>

namespace coxswain::report {

// Resource. Writes text to a file descriptor that it does not own, and never harms the run: what a
// slow reader has no room for within `patience` is dropped, and after an error everything is. Text
// that was cut in the middle gets an end of line before the next.
class TextSink {
 public:
  // `columns` of the terminal that the text reaches in the end, 0: none. Asked of the descriptor
  // when not given, which under mpirun is a terminal always.
  explicit TextSink(int file_descriptor, std::optional<int> columns = std::nullopt);

  void write(std::string_view text,
             std::chrono::milliseconds patience = std::chrono::milliseconds(50));
  bool is_terminal() const { return columns_ ? *columns_ > 0 : terminal_; }
  int width() const;  // of the terminal, now; 80 when not known

 private:
  bool write_all(std::string_view text, std::chrono::milliseconds patience);

  int file_descriptor_;
  std::optional<int> columns_;
  bool terminal_;
  bool broken_ = false;
  bool dropping_ = false;  // the last text found no room: the next one doesn't wait for it
  bool cut_ = false;
};

// The last words of a run may wait this long.
inline constexpr std::chrono::milliseconds kLastWordsPatience{2000};

// Writes to a closed pipe, or beyond the longest file that is allowed (ulimit -f), become errors
// instead of ending the process. Call once in main.
void let_writes_fail();

}  // namespace coxswain::report
