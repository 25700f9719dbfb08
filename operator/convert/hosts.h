#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operator/convert/draft.h"

// Machines that a command names, and how many ranks each takes.
namespace coxswain::convert {

struct Host {
  std::string name;
  int slots = 1;
  bool operator==(const Host&) const = default;
};

// The text of a file that the command names; nothing: it can't be read.
using ReadFile = std::function<std::optional<std::string>(const std::string& path)>;

// "h1:4,h2:4", as -H of horovodrun and mpirun takes it; a host that is named again adds its slots.
// Nothing: it is no such list.
std::optional<std::vector<Host>> read_host_list(std::string_view text);

// A hostfile, line by line: "h slots=4 max-slots=8" (Open MPI), "h:4" (MPICH), "h 4", "h"; comments
// from '#' on. Nothing: it is none.
std::optional<std::vector<Host>> read_hostfile(std::string_view text);

// How many workers of how many slots the ranks are, filling one host after the other, as mpirun
// does. `ranks`: all slots, unless given. Ranks that don't fill hosts alike are a worker each.
struct Placement {
  int workers = 1;
  int slots = 1;
  bool uneven = false;
  bool operator==(const Placement&) const = default;
};
Placement place_ranks(std::optional<int> ranks, const std::vector<Host>& hosts);

}  // namespace coxswain::convert
