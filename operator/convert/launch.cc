#include "operator/convert/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "operator/convert/launchers.h"

namespace coxswain::convert {

namespace {

constexpr auto kMpiNames =
    std::to_array<std::string_view>({"mpirun", "mpiexec", "orterun", "mpiexec.hydra", "prun"});

// What stands in front of a command and is nothing that a job would say.
constexpr auto kInFront = std::to_array<std::string_view>({"sudo", "time", "nohup", "exec"});

// What starts many processes elsewhere, and has no table here.
constexpr auto kOtherLaunchers = std::to_array<std::string_view>(
    {"srun", "jsrun", "aprun", "accelerate", "deepspeed", "ray", "pdsh"});

bool is_among(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

bool is_mpi(const std::string& name) { return is_among(kMpiNames, name); }

using Words = std::vector<std::string>;

Words after(const Words& words, std::size_t count) {
  return {words.begin() + std::ptrdiff_t(std::min(count, words.size())), words.end()};
}

// What a word says that a launcher is; nullptr: none.
struct Known {
  const Dialect* dialect = nullptr;
  std::size_t words = 0;  // those that name it
};

Known known_launcher(const Words& words) {
  if (words.empty()) return {};
  const std::string first = base_name(words.front());
  if (is_mpi(first)) return {&mpirun(), 1};
  if (first == "horovodrun") return {&horovodrun(), 1};
  if (first == "torchrun") return {&torchrun(), 1};
  if (first == "launch.py" || first == "dmlc-submit") return {&launch_py(), 1};
  const std::size_t python = python_words(words);
  if (python == 0 || python >= words.size()) return {};
  if (base_name(words[python]) == "launch.py") return {&launch_py(), python + 1};
  if (words[python] != "-m" || python + 1 >= words.size()) return {};
  const std::string& module = words[python + 1];
  if (module == "torch.distributed.launch" || module == "torch.distributed.run")
    return {&torchrun(), python + 2};
  if (module == "horovod.runner.launch" || module == "horovod.run")
    return {&horovodrun(), python + 2};
  return {};
}

Words without_front(Words words, Draft& draft) {
  while (!words.empty() && is_among(kInFront, words.front())) {
    std::size_t count = 1;
    while (count < words.size() && words[count].starts_with('-')) ++count;
    if (count == words.size()) return words;
    draft.note(Outcome::kNotNeeded, words.front(), "of the shell that the command was typed in");
    words = after(words, count);
  }
  return words;
}

// A launcher within somebody else's command would start its ranks in one pod alone.
void refuse_inner_launcher(const Words& words, Draft& draft) {
  if (words.empty() || python_words(words) > 0) return;
  const std::string first = base_name(words.front());
  if (is_among(kOtherLaunchers, first)) {
    draft.no_place(first,
                   "a launcher that convert doesn't read: write the command as mpirun, horovodrun, "
                   "torchrun or launch.py would start it");
    return;
  }
  for (const std::string& word : after(words, 1))
    for (std::size_t at = word.find_first_not_of(' '); at < word.size();
         at = word.find_first_not_of(' ', at)) {
      const std::size_t end = std::min(word.find(' ', at), word.size());
      const std::string part = word.substr(at, end - at);
      if (known_launcher({part}).dialect)
        return draft.no_place(first, fmt::format("starts {}: convert that command alone", part));
      at = end;
    }
}

void take_hosts(const Json& given, const ReadFile& read_file, Launch& launch, Draft& draft) {
  if (const auto list = given.find("hosts"); list != given.end()) {
    const auto hosts = read_host_list(list->get<std::string>());
    if (!hosts) draft.no_place(list->get<std::string>(), "is no list of hosts, as h1:4,h2:4");
    launch.hosts = hosts.value_or(std::vector<Host>{});
  }
  if (const auto file = given.find("hostfile"); file != given.end()) {
    const auto path = file->get<std::string>();
    const auto text = read_file ? read_file(path) : std::nullopt;
    if (!text) {
      draft.no_place(path, "can't be read: give the hostfile as it is where the command runs");
      return;
    }
    const auto hosts = read_hostfile(*text);
    if (!hosts)
      draft.no_place(path, "is no hostfile: a line is `host slots=4`, `host:4` or `host`");
    launch.hosts = hosts.value_or(std::vector<Host>{});
  }
}

// The draft holds what the options said below `launch`; this takes it out again.
void take_given(const ReadFile& read_file, Launch& launch, Draft& draft) {
  const Json* there = draft.find("launch");
  const Json given = there ? *there : Json::object();
  draft.remove("launch");
  const auto number = [&](const char* key, std::optional<int>& target, int min) {
    if (!given.contains(key)) return;
    const std::string text = given.at(key).get<std::string>();
    target = whole_number(text, min);
    if (!target || *target > 1000000) {
      draft.no_place(text, fmt::format("{}: must be a whole number from {} on", key, min));
      target.reset();
    }
  };
  number("ranks", launch.ranks, 1);
  number("workers", launch.workers, 1);
  number("slots", launch.slots, 1);
  number("servers", launch.servers, 0);
  number("least", launch.least, 1);
  number("most", launch.most, 1);
  take_hosts(given, read_file, launch, draft);
  launch.directory = given.value("directory", "");
  for (const Json& one : given.value("environment", Json::array()))
    launch.environment.emplace_back(one.at(0), one.at(1));
  for (const Json& one : given.value("kept", Json::array())) launch.kept.push_back(one);
}

}  // namespace

std::string base_name(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

std::size_t python_words(const std::vector<std::string>& words) {
  if (words.empty()) return 0;
  const std::string first = base_name(words.front());
  const bool python =
      first.starts_with("python") && first.find_first_not_of("0123456789.", 6) == std::string::npos;
  if (!python) return 0;
  std::size_t count = 1;
  while (count < words.size() && words[count].size() > 1 && words[count].front() == '-' &&
         words[count] != "-m" && words[count] != "-c")
    count += words[count] == "-W" || words[count] == "-X" ? 2 : 1;
  return std::min(count, words.size());
}

Launch read_launch(const SimpleCommand& command, const ReadFile& read_file, Draft& draft) {
  Launch launch;
  const Words words = without_front(command.words, draft);
  const Known known = known_launcher(words);
  if (!known.dialect) {
    refuse_inner_launcher(words, draft);
    launch.environment = command.environment;
    launch.program = words;
    return launch;
  }
  launch.starter = known.dialect->starter;
  launch.name = known.dialect->name;
  launch.program =
      take_options(known.dialect->options, known.dialect->style, after(words, known.words), draft);
  take_given(read_file, launch, draft);
  launch.environment.insert(launch.environment.begin(), command.environment.begin(),
                            command.environment.end());
  if (launch.starter == Starter::kTorch) {
    Words front(words.begin(), words.begin() + std::ptrdiff_t(known.words));
    front.insert(front.end(), launch.kept.begin(), launch.kept.end());
    launch.kept = front;
  }
  if (launch.program.size() == 1 && launch.program.front().find(' ') != std::string::npos) {
    const SimpleCommand inner = read_line(launch.program.front(), draft);
    launch.program = inner.words;
    launch.environment.insert(launch.environment.end(), inner.environment.begin(),
                              inner.environment.end());
  }
  if (launch.program.empty())
    draft.no_place(launch.name, "starts no program: write the whole command");
  else if (known_launcher(launch.program).dialect)
    draft.no_place(launch.program.front(),
                   "a launcher that a launcher starts: convert one of them");
  if (launch.starter == Starter::kMpi &&
      std::ranges::find(launch.program, ":") != launch.program.end())
    draft.no_place("A : B", "ranks of several programs: one job has one program");
  return launch;
}

void place_elastic(const Launch& launch, const Placement& placement, Draft& draft) {
  const auto workers_of = [&](int count) {
    return launch.starter == Starter::kMpi ? (count + placement.slots - 1) / placement.slots
                                           : count;
  };
  if (launch.least)
    draft.put("elasticPolicy.minReplicas", std::min(workers_of(*launch.least), placement.workers));
  if (launch.most)
    draft.put("elasticPolicy.maxReplicas", std::max(workers_of(*launch.most), placement.workers));
  if (const Json* elastic = draft.find("elasticPolicy"))
    draft.note(Outcome::kBecame, launch.name, "elasticPolicy: " + elastic->dump());
}

void place(const Launch& launch, Draft& draft) {
  Placement placement{.workers = launch.workers.value_or(1), .slots = launch.slots.value_or(1)};
  if (launch.starter == Starter::kMpi) {
    placement = place_ranks(launch.ranks, launch.hosts);
    if (!launch.ranks && launch.hosts.empty())
      draft.no_place(launch.name, "how many ranks? Give -np N, or a hostfile with slots");
    if (launch.slots && launch.hosts.empty() && placement.workers % *launch.slots == 0)
      placement = {.workers = placement.workers / *launch.slots, .slots = *launch.slots};
    if (placement.uneven)
      draft.note(Outcome::kMind, fmt::format("{} ranks", placement.workers),
                 "don't fill the hosts alike: a worker of one slot each");
  }
  if (launch.starter == Starter::kMxnet && !launch.workers)
    draft.no_place(launch.name, "how many workers? Give -n N");
  draft.put(kWorkers, placement.workers);
  if (placement.slots > 1) draft.put("slotsPerWorker", placement.slots);
  if (launch.starter == Starter::kMpi && (launch.ranks || !launch.hosts.empty()))
    draft.note(Outcome::kBecame, fmt::format("{} ranks", placement.workers * placement.slots),
               fmt::format("replicaSpecs.Worker.replicas: {}, slotsPerWorker: {}",
                           placement.workers, placement.slots));
  place_elastic(launch, placement, draft);
}

}  // namespace coxswain::convert
