#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "operator/convert/draft.h"
#include "operator/convert/hosts.h"
#include "operator/convert/shell.h"

// Launchers: what starts many processes of somebody's program.
namespace coxswain::convert {

enum class Starter { kNobody, kMpi, kTorch, kMxnet };

// What a launcher's options say, besides what the draft notes. A launcher keeps what it reads here,
// below `launch`, until all is known: the draft's spec holds fields of a TrainingJob alone.
struct Launch {
  Starter starter = Starter::kNobody;
  std::string name;            // as people call it: "horovodrun"
  std::optional<int> ranks;    // of all hosts
  std::optional<int> workers;  // machines
  std::optional<int> slots;    // ranks of one
  std::optional<int> servers;
  std::vector<Host> hosts;
  std::optional<int> least, most;  // of an elastic job: ranks, or machines of torchrun
  std::vector<std::pair<std::string, std::string>> environment;
  std::string directory;             // where the program runs; empty: wherever
  std::vector<std::string> kept;     // the launcher's own words that stay in the command
  std::vector<std::string> program;  // what it starts
};

// What a command starts, and how: the launcher's part is read and noted, the rest is the program.
// A command without a launcher is a program alone.
Launch read_launch(const SimpleCommand& command, const ReadFile& read_file, Draft& draft);

// Writes how many workers and slots there are, and how many may come and go.
void place(const Launch& launch, Draft& draft);

// The second of it alone, where the workers are known.
void place_elastic(const Launch& launch, const Placement& placement, Draft& draft);

// "/usr/bin/python3 -u" -> true; how many words Python's own part has.
std::size_t python_words(const std::vector<std::string>& words);

// The last part of a path: "/opt/tools/run" -> "run".
std::string base_name(const std::string& path);

}  // namespace coxswain::convert
