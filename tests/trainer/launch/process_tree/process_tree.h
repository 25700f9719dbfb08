#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace coxswain::test {

using namespace std::chrono_literals;

std::set<pid_t> descendants(pid_t root);  // by /proc, without the root
bool is_alive(pid_t pid);                 // a zombie is not
std::string name_of(pid_t pid);           // /proc/<pid>/comm
std::string command_line_of(pid_t pid);   // words separated by blanks
bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds limit = 5s);

// The one descendant whose command line contains all of `words`; 0 if there is none.
pid_t find_descendant(pid_t root, const std::vector<std::string>& words);

// Remembers a tree of processes; afterwards tells which of them are left, and kills these.
class TreeWatch {
 public:
  explicit TreeWatch(pid_t root);
  ~TreeWatch();
  TreeWatch(const TreeWatch&) = delete;
  void look();                            // for those started since
  std::vector<std::string> left() const;  // command lines of those alive

 private:
  pid_t root_;
  std::set<pid_t> seen_;
};

}  // namespace coxswain::test
