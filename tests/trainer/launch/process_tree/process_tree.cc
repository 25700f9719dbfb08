#include "tests/trainer/launch/process_tree/process_tree.h"

#include <signal.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

namespace coxswain::test {

namespace {

struct ProcessState {
  char state = 'X';
  pid_t parent = 0;
};

ProcessState state_of(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(in, text);
  ProcessState result;
  // "pid (name) state parent ...": the name may hold blanks and brackets.
  if (const auto end = text.rfind(')'); end != std::string::npos) {
    std::istringstream(text.substr(end + 1)) >> result.state >> result.parent;
  }
  return result;
}

bool is_number(const std::string& text) {
  return std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

}  // namespace

std::set<pid_t> descendants(pid_t root) {
  std::multimap<pid_t, pid_t> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (!is_number(name)) continue;
    const pid_t pid = std::stoi(name);
    children.emplace(state_of(pid).parent, pid);
  }
  std::set<pid_t> found;
  std::vector<pid_t> open{root};
  while (!open.empty()) {
    const auto [first, last] = children.equal_range(open.back());
    open.pop_back();
    for (auto child = first; child != last; ++child) {
      if (found.insert(child->second).second) open.push_back(child->second);
    }
  }
  return found;
}

bool is_alive(pid_t pid) {
  const char state = state_of(pid).state;
  return state != 'X' && state != 'Z';
}

std::string name_of(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/comm");
  std::string name;
  std::getline(in, name);
  return name;
}

std::string command_line_of(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/cmdline", std::ios::binary);
  std::string words((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  std::ranges::replace(words, '\0', ' ');
  return words;
}

bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(10ms);
  }
  return true;
}

pid_t find_descendant(pid_t root, const std::vector<std::string>& words) {
  for (const pid_t pid : descendants(root)) {
    const std::string line = command_line_of(pid);
    const auto contains = [&](const std::string& word) {
      return line.find(word) != std::string::npos;
    };
    if (std::ranges::all_of(words, contains)) return pid;
  }
  return 0;
}

TreeWatch::TreeWatch(pid_t root) : root_(root), seen_{root} { look(); }

TreeWatch::~TreeWatch() {
  look();
  for (const pid_t pid : seen_) {
    if (is_alive(pid)) kill(pid, SIGKILL);
  }
}

void TreeWatch::look() { seen_.merge(descendants(root_)); }

std::vector<std::string> TreeWatch::left() const {
  std::vector<std::string> lines;
  for (const pid_t pid : seen_) {
    if (is_alive(pid)) lines.push_back(command_line_of(pid));
  }
  return lines;
}

}  // namespace coxswain::test
