#include "operator/cluster/kill_point.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "operator/job/roles.h"
#include "trainer/contract/error.h"

namespace coxswain::cluster {

namespace {

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && stop == text.data() + text.size() && value >= 0;
  return whole ? std::optional(value) : std::nullopt;
}

KillPoint parse(const std::string& text) {
  const std::size_t at = text.find('@');
  const std::size_t dash = text.rfind('-', at);
  if (at != std::string::npos && dash != std::string::npos) {
    const auto role = contract::role_of(std::string_view(text).substr(0, dash));
    const auto index = number(std::string_view(text).substr(dash + 1, at - dash - 1));
    const auto step = number(std::string_view(text).substr(at + 1));
    if (role && index && step) return {*role, *index, *step};
  }
  throw Error(ExitCode::kUsage,
              fmt::format("--kill {}: write ROLE-INDEX@STEP, as worker-1@137 or server-0@40",
                          text));
}

// mpirun, which worker 0 runs, starts the ranks of all workers.
bool starts_all(const job::Spec& spec) { return job::launcher(spec) == job::Launcher::kMpi; }

[[noreturn]] void refuse(const KillPoint& point, const std::string& why) {
  throw Error(ExitCode::kBadInput, fmt::format("--kill {}@{}: {}",
                                               job::short_name(point.role, point.index), point.step,
                                               why));
}

}  // namespace

std::vector<KillPoint> parse_kill_points(const std::vector<std::string>& given) {
  std::vector<KillPoint> points;
  for (const std::string& text : given) {
    const KillPoint next = parse(text);
    const auto same = [&](const KillPoint& point) {
      return point.role == next.role && point.index == next.index;
    };
    if (std::ranges::any_of(points, same))
      throw Error(ExitCode::kUsage, fmt::format("--kill {}: {} is given twice", text,
                                                job::short_name(next.role, next.index)));
    points.push_back(next);
  }
  return points;
}

void check_kill_points(const std::vector<KillPoint>& points, const job::Spec& spec) {
  for (const KillPoint& point : points) {
    if (!spec.training) refuse(point, "only with `training`: it is our trainer that dies there");
    const job::ReplicaSpec* replicas = job::traits_of(point.role).replicas(spec);
    const int count = replicas ? replicas->replicas : 0;
    if (point.index >= count)
      refuse(point, fmt::format("the job has {} {}s, from 0 on", count, to_text(point.role)));
  }
  if (points.size() > 1 && starts_all(spec))
    refuse(points[1], "with launcher MPI one can be killed; or set launcher: Env");
}

std::string fail_point(const std::vector<KillPoint>& points, const job::Spec& spec,
                       const job::WorkerId& id) {
  for (const KillPoint& point : points) {
    const int starter = starts_all(spec) ? 0 : point.index;
    if (id.attempt > 0 || id.role != point.role || id.index != starter) continue;
    if (id.role == job::Role::kServer) return fmt::format("{}:{}:update", point.index, point.step);
    return fmt::format("{}:{}:reduce", point.index * job::slots_per_worker(spec), point.step);
  }
  return "";
}

}  // namespace coxswain::cluster
