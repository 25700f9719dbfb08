#include <fmt/format.h>

#include <array>

#include "operator/convert/launchers.h"

namespace coxswain::convert {

void say_variable(Draft& draft, const std::vector<std::string>& values) {
  const std::string& text = values.front();
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) {
    draft.note(Outcome::kMind, text,
               "its value is of the machine where mpirun ran: an image sets its own, or write it "
               "into env of the template");
    return;
  }
  draft.add_to("launch.environment",
               Json::array({text.substr(0, equals), text.substr(equals + 1)}));
}

namespace {

void say_pair(Draft& draft, const std::vector<std::string>& values) {
  draft.add_to("launch.environment", Json::array({values[0], values[1]}));
}

constexpr const char* kOurMpi = "the operator sets up Open MPI: hosts, SSH, its transport";
constexpr const char* kPinned =
    "ranks share the CPUs of their pod; `threads` says how many each uses";
constexpr const char* kOutput = "each pod has its own log";
using enum Outcome;

constexpr auto kMpirunOptions = std::to_array<Option>({
    {.names = "-np -n -c", .answer = "{} ranks", .take = say<kRanks>},
    {.names = "-H -host -hosts",
     .answer = "their slots; the operator writes the hostfile",
     .take = say<kHosts>},
    {.names = "-hostfile -machinefile -f -default-hostfile",
     .answer = "its slots; the operator writes the hostfile",
     .take = say<kHostfile>},
    {.names = "-ppn -npernode -N -perhost", .answer = "slotsPerWorker: {}", .take = say<kSlots>},
    {.names = "-x", .take = say_variable},
    {.names = "-env -genv", .values = 2, .take = say_pair},
    {.names = "-envall -genvall",
     .values = 0,
     .outcome = kMind,
     .answer = "variables of the machine where mpirun ran: an image sets its own"},
    {.names = "-wdir -wd", .answer = "workingDir of the container", .take = say<kDirectory>},
    {.names = "-mca -gmca -prtemca -pmixmca",
     .values = 2,
     .outcome = kNotNeeded,
     .answer = kOurMpi},
    {.names = "-allow-run-as-root",
     .values = 0,
     .outcome = kNotNeeded,
     .answer = "ranks don't run as root"},
    {.names = "-oversubscribe -nooversubscribe -use-hwthread-cpus",
     .values = 0,
     .outcome = kNotNeeded,
     .answer = "a worker takes as many ranks as it has slots"},
    {.names = "-bind-to -map-by -rank-by", .outcome = kNotNeeded, .answer = kPinned},
    {.names =
         "-bind-to-core -bind-to-socket -bind-to-none -bycore -bynode -byslot -report-bindings",
     .values = 0,
     .outcome = kNotNeeded,
     .answer = kPinned},
    {.names = "-tag-output -timestamp-output -q -quiet -v -verbose -display-map "
              "-display-allocation -prepend-rank -l -merge-stderr-to-stdout",
     .values = 0,
     .outcome = kNotNeeded,
     .answer = kOutput},
    {.names = "-output-filename -output -outfile-pattern -errfile-pattern",
     .outcome = kNotNeeded,
     .answer = kOutput},
    {.names = "-prefix -launcher -bootstrap -rsh -iface -path",
     .outcome = kNotNeeded,
     .answer = kOurMpi},
    {.names = "-enable-recovery -disable-recovery -no-local -nolocal",
     .values = 0,
     .outcome = kNotNeeded,
     .answer = kOurMpi},
    {.names = "-timeout",
     .answer = "runPolicy.activeDeadlineSeconds: {}",
     .key = "runPolicy.activeDeadlineSeconds"},
    {.names = "-app -configfile",
     .outcome = kNoPlace,
     .answer = "ranks of several programs: one job has one program"},
});

}  // namespace

const Dialect& mpirun() {
  static constexpr Dialect dialect{"mpirun", Starter::kMpi, OptionStyle::kMpi, kMpirunOptions};
  return dialect;
}

}  // namespace coxswain::convert
