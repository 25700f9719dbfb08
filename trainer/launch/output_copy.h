#pragma once

#include <array>
#include <chrono>
#include <filesystem>
#include <string_view>
#include <vector>

#include "trainer/contract/worker/child_process.h"

namespace coxswain::launch {

// Resource. A file of what was printed. One that can't be written is given up; one of 32 MiB begins
// anew.
class OutputFile {
 public:
  explicit OutputFile(const std::filesystem::path& file);
  bool is_open() const { return file_.get() >= 0; }
  void add(std::string_view bytes);

 private:
  contract::FileDescriptor file_;
  std::size_t kept_ = 0;  // bytes in the file
};

// Resource. What a command prints goes on to where this process prints, and into a file as well.
// Where that is a terminal, the command has one too: else it would keep its lines to itself. Never
// waits for a reader who does not read: then the command waits, as it would without this.
class OutputCopy {
 public:
  explicit OutputCopy(const std::filesystem::path& file);

  // The command's; -1: this process's own, and nothing is copied.
  int stdout_fd() const { return streams_[0].given.get(); }
  int stderr_fd() const { return streams_[1].given.get(); }
  void started();  // the command has them: they close with it

  std::vector<int> descriptors() const;             // readable when there is something to copy
  bool waits() const;                               // for our reader: to be asked again soon
  void copy();                                      // what there is, and our reader takes
  void finish(std::chrono::milliseconds patience);  // what is left after the command's end

 private:
  struct Stream {
    contract::FileDescriptor given;
    contract::FileDescriptor source;
    int target = -1;
    bool waits = false;
  };
  bool copy_some(Stream& stream);

  OutputFile file_;
  std::array<Stream, 2> streams_;
};

}  // namespace coxswain::launch
