#pragma once

#include <span>
#include <string_view>

#include "operator/convert/launch.h"
#include "operator/convert/options.h"

// One launcher's options: a file each.
namespace coxswain::convert {

// What an option says of the launch it puts below `launch` in the draft, as text: ranks, workers,
// slots, servers, hosts, hostfile, least, most, directory; and lists: environment, kept.
struct Dialect {
  std::string_view name;
  Starter starter;
  OptionStyle style;
  std::span<const Option> options;
};

const Dialect& mpirun();  // Open MPI's and MPICH's
const Dialect& horovodrun();
const Dialect& torchrun();   // and torch.distributed.launch
const Dialect& launch_py();  // MXNet's

// For rows: puts the value, as text, where take_given() looks for it.
template <const char* kKey>
void say(Draft& draft, const std::vector<std::string>& values) {
  draft.put(std::string("launch.") + kKey, values.front());
}

inline constexpr char kRanks[] = "ranks";
inline constexpr char kNodes[] = "workers";
inline constexpr char kSlots[] = "slots";
inline constexpr char kServerCount[] = "servers";
inline constexpr char kHosts[] = "hosts";
inline constexpr char kHostfile[] = "hostfile";
inline constexpr char kLeast[] = "least";
inline constexpr char kMost[] = "most";
inline constexpr char kDirectory[] = "directory";

// NAME=VALUE, or NAME alone: its value is not known here.
void say_variable(Draft& draft, const std::vector<std::string>& values);

}  // namespace coxswain::convert
