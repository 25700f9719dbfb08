#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace coxswain {

// How many cores' time "quota period" (microseconds) grants: "150000 100000" is 1.5. Nothing when
// there is no limit ("max" in cgroup v2, -1 in v1) or the text is something else.
std::optional<double> cores_of_quota(const std::string& quota_and_period);

// The limit of this process's own cgroup as a container sees it under `root`: cpu.max of cgroup v2,
// else cpu.cfs_quota_us and cpu.cfs_period_us of v1's cpu controller.
std::optional<double> cgroup_cores(const std::filesystem::path& root = "/sys/fs/cgroup");

}  // namespace coxswain
