#include "operator/convert/program.h"

#include <algorithm>
#include <array>

#include "operator/convert/script.h"
#include "operator/job/strategy_names.h"

namespace coxswain::convert {

namespace {

constexpr auto kOurs =
    std::to_array<std::string_view>({"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK",
                                     "LOCAL_RANK", "TF_CONFIG", "LD_PRELOAD", "NCCL_COMM_ID"});
constexpr auto kOurPrefixes = std::to_array<std::string_view>(
    {"COXSWAIN_", "PET_", "DEEPLEARNING_", "OMPI_", "PRTE_", "DMLC_", "I_MPI_", "HYDRA_"});

Json environment_of(const Launch& launch, Draft& draft) {
  Json list = Json::array();
  for (const auto& [name, value] : launch.environment) {
    if (is_set_by_operator(name)) {
      draft.note(Outcome::kNotNeeded, name, "the operator sets it in every pod");
      continue;
    }
    list.push_back({{"name", name}, {"value", value}});
    draft.note(Outcome::kBecame, name + "=" + value, "env of the template");
  }
  return list;
}

Json container_of(const std::vector<std::string>& command, const std::string& image) {
  Json container = {{"name", "trainer"}, {"command", command}};
  if (!image.empty()) container["image"] = image;
  return container;
}

Json pod(Json container) {
  return {{"spec", {{"containers", Json::array({std::move(container)})}}}};
}

// A server of MXNet's is a process that imports it.
Json mxnet_server(const Launch& launch, const std::string& image) {
  const bool python = python_words(launch.program) > 0;
  return container_of({python ? launch.program.front() : "python3", "-c", "import mxnet"}, image);
}

}  // namespace

bool is_set_by_operator(std::string_view variable) {
  const auto begins = [&](std::string_view prefix) { return variable.starts_with(prefix); };
  return std::find(kOurs.begin(), kOurs.end(), variable) != kOurs.end() ||
         std::any_of(kOurPrefixes.begin(), kOurPrefixes.end(), begins);
}

void set_up(const Launch& launch, Draft& draft) {
  switch (launch.starter) {
    case Starter::kMpi:
      draft.put("launcher", "MPI");
      draft.note(Outcome::kMind, launch.name,
                 "launcher: MPI starts the command once a rank, in an image built FROM our "
                 "trainer-cpu, which brings Open MPI and sshd");
      return;
    case Starter::kTorch:
      draft.put("rendezvous", Json::array({"PyTorch"}));
      return;
    case Starter::kMxnet:
      use_servers(launch, draft);
      draft.put("rendezvous", Json::array({"MXNet"}));
      return;
    case Starter::kNobody:
      return;
  }
}

std::vector<std::string> command_of(const Launch& launch) {
  std::vector<std::string> command;
  if (launch.starter == Starter::kTorch) command = launch.kept;
  command.insert(command.end(), launch.program.begin(), launch.program.end());
  return command;
}

void fill_templates(const Launch& launch, const std::string& image, Draft& draft) {
  Json container = container_of(command_of(launch), image);
  if (Json environment = environment_of(launch, draft); !environment.empty())
    container["env"] = std::move(environment);
  if (!launch.directory.empty()) container["workingDir"] = launch.directory;
  draft.put(kWorkerTemplate, pod(std::move(container)));
  if (launch.starter == Starter::kMxnet)
    draft.put(kServerTemplate, pod(mxnet_server(launch, image)));
}

void explain_strategies(const std::vector<std::string>& words, Draft& draft) {
  for (const std::string& word : words) {
    const bool option = word.starts_with("--");
    const job::StrategyName* known = job::strategy_name(
        option ? word.substr(std::min(word.find('='), word.size() - 1) + 1) : word);
    if (!known || known->name == "local" || known->name == "device") continue;
    if (!known->strategy) {
      draft.no_place(word, std::string(known->write));
      continue;
    }
    draft.note(
        Outcome::kMind, word,
        "of the program itself; a job of ours writes strategy: " + std::string(known->write));
    if (known->framework && *known->framework != job::Framework::kHorovod &&
        !draft.find("rendezvous") && !draft.find("launcher"))
      draft.put("rendezvous", Json::array({std::string(coxswain::word(*known->framework))}));
  }
}

}  // namespace coxswain::convert
