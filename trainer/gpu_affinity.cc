#include "trainer/gpu_affinity.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <fstream>
#include <iterator>

namespace coxswain {

namespace {

namespace fs = std::filesystem;

constexpr int kMostCores = CPU_SETSIZE;

std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

std::optional<int> parse_number(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

}  // namespace

std::optional<Cores> parse_cores(std::string_view list) {
  Cores cores;
  while (true) {
    const std::string_view range = list.substr(0, list.find(','));
    const auto first = parse_number(range.substr(0, range.find('-')));
    const auto last = parse_number(range.substr(range.find('-') + 1));  // npos + 1: all of it
    if (!first || !last || *last < *first || *last >= kMostCores) return std::nullopt;
    for (int core = *first; core <= *last; ++core) cores.insert(core);
    if (range.size() == list.size()) return cores;
    list.remove_prefix(range.size() + 1);
  }
}

std::string to_text(const Cores& cores) {
  std::string text;
  for (auto first = cores.begin(); first != cores.end();) {
    auto last = first;
    while (std::next(last) != cores.end() && *std::next(last) == *last + 1) ++last;
    text += text.empty() ? "" : ",";
    text += first == last ? fmt::format("{}", *first) : fmt::format("{}-{}", *first, *last);
    first = std::next(last);
  }
  return text;
}

DevicePlace place_of_device(const std::string& pci_id, const fs::path& root) {
  std::string name = pci_id;
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  if (name.empty()) return {};
  return {first_line(root / name / "numa_node"), first_line(root / name / "local_cpulist")};
}

std::optional<Cores> cores_beside(const DevicePlace& place, const Cores& allowed) {
  const auto local = parse_cores(place.cores);
  if (!local || !parse_number(place.numa_node)) return std::nullopt;
  Cores cores;
  std::ranges::set_intersection(*local, allowed, std::inserter(cores, cores.end()));
  if (cores.empty() || cores == allowed) return std::nullopt;
  return cores;
}

Cores allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  Cores cores;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cores;
  for (int core = 0; core < kMostCores; ++core)
    if (CPU_ISSET(core, &set)) cores.insert(core);
  return cores;
}

// A thread that has ended meanwhile is no failure.
bool bind_to(const Cores& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(core, &set);
  std::error_code none;
  for (const auto& thread : fs::directory_iterator("/proc/self/task", none)) {
    const auto id = parse_number(thread.path().filename().string());
    if (id) sched_setaffinity(*id, sizeof(set), &set);
  }
  return sched_setaffinity(0, sizeof(set), &set) == 0;
}

}  // namespace coxswain
