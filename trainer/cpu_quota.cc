#include "trainer/cpu_quota.h"

#include <fstream>
#include <sstream>

namespace coxswain {

namespace {

// Empty when there is no such file.
std::string first_line(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

}  // namespace

std::optional<double> cores_of_quota(const std::string& quota_and_period) {
  std::istringstream in(quota_and_period);
  double quota = 0;
  double period = 0;
  if (!(in >> quota >> period) || quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

std::optional<double> cgroup_cores(const std::filesystem::path& root) {
  if (const auto cores = cores_of_quota(first_line(root / "cpu.max"))) return cores;
  // v1's controllers share a mount on most systems; not every container gets the link to it.
  for (const char* controller : {"cpu", "cpu,cpuacct"}) {
    const auto cores = cores_of_quota(first_line(root / controller / "cpu.cfs_quota_us") + " " +
                                      first_line(root / controller / "cpu.cfs_period_us"));
    if (cores) return cores;
  }
  return std::nullopt;
}

}  // namespace coxswain
