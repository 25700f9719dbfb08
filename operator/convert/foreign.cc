#include "operator/convert/foreign.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "operator/convert/program.h"
#include "operator/job/json_fields.h"

namespace coxswain::convert {

namespace {

using Path = std::vector<std::string>;
using enum Outcome;

Path segments(std::string_view path) {
  Path parts;
  while (true) {
    const std::size_t dot = std::min(path.find('.'), path.size());
    parts.emplace_back(path.substr(0, dot));
    if (dot == path.size()) return parts;
    path.remove_prefix(dot + 1);
  }
}

std::string to_text(const Path& path) {
  std::string text;
  for (const std::string& part : path)
    text += (text.empty() || part.starts_with('[') ? "" : ".") + part;
  return text;
}

// Whether the row's path begins with `path`; the first star's part of it.
struct Fit {
  bool begins = false;
  bool whole = false;
  std::string star;
};

Fit fit(const FieldRow& row, const Path& path) {
  const Path wanted = segments(row.path);
  Fit fit;
  if (wanted.size() < path.size()) return fit;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (wanted[i] != "*" && wanted[i] != path[i]) return {};
    if (wanted[i] == "*" && fit.star.empty()) fit.star = path[i];
  }
  fit.begins = true;
  fit.whole = wanted.size() == path.size();
  return fit;
}

class Walk {
 public:
  Walk(const job::JobDocument& document, const std::vector<std::span<const FieldRow>>& tables,
       Foreign& foreign)
      : document_(document), tables_(tables), foreign_(foreign) {}

  void go(const Json& value, const Path& path) {
    if (value.is_object())
      for (const auto& [key, inner] : value.items()) visit(inner, path, key);
    if (value.is_array())
      for (std::size_t i = 0; i < value.size(); ++i) visit(value[i], path, fmt::format("[{}]", i));
  }

 private:
  void visit(const Json& value, Path path, const std::string& key) {
    if (value.is_null()) return;
    path.push_back(key);
    bool known_below = false;
    for (const auto& table : tables_)
      for (const FieldRow& row : table) {
        const Fit found = fit(row, path);
        if (found.whole) return apply(row, found.star, value, path);
        known_below = known_below || found.begins;
      }
    if (known_below && value.is_structured()) return go(value, path);
    foreign_.draft.no_place(place(path), "unknown field");
  }

  void apply(const FieldRow& row, const std::string& star, const Json& value, const Path& path) {
    if (!row.answer.empty())
      foreign_.draft.note(row.outcome, place(path), std::string(row.answer));
    else if (!row.key.empty())
      foreign_.draft.note(row.outcome, place(path), fmt::format("{}: {}", row.key, value.dump()));
    if (!row.key.empty()) foreign_.draft.put(row.key, value);
    if (row.take) row.take(foreign_, star, value);
  }

  std::string place(const Path& path) const {
    const std::string text = to_text(path);
    const auto line = document_.lines.find(text);
    return line == document_.lines.end() ? text : fmt::format("line {}: {}", line->second, text);
  }

  const job::JobDocument& document_;
  const std::vector<std::span<const FieldRow>>& tables_;
  Foreign& foreign_;
};

constexpr auto kMetadata = std::to_array<FieldRow>({
    {.path = "apiVersion"},
    {.path = "kind"},
    {.path = "status"},
    {.path = "metadata.name",
     .take =
         [](Foreign& foreign, const std::string&, const Json& value) {
           if (value.is_string()) foreign.draft.name = value.get<std::string>();
         }},
    {.path = "metadata.generateName",
     .take =
         [](Foreign& foreign, const std::string&, const Json& value) {
           if (value.is_string()) foreign.draft.name = job_name(value.get<std::string>());
         }},
    {.path = "metadata.namespace",
     .take =
         [](Foreign& foreign, const std::string&, const Json& value) {
           if (value.is_string()) foreign.draft.name_space = value.get<std::string>();
         }},
    {.path = "metadata.labels",
     .outcome = kMind,
     .answer = "labels of their operator; write your own into the new job's metadata"},
    {.path = "metadata.annotations",
     .outcome = kMind,
     .answer = "annotations of their operator; write your own into the new job's metadata"},
    {.path = "metadata.uid"},
    {.path = "metadata.resourceVersion"},
    {.path = "metadata.generation"},
    {.path = "metadata.creationTimestamp"},
    {.path = "metadata.managedFields"},
    {.path = "metadata.selfLink"},
    {.path = "metadata.ownerReferences", .outcome = kNotNeeded, .answer = "of the cluster"},
    {.path = "metadata.finalizers", .outcome = kNotNeeded, .answer = "of the cluster"},
});

constexpr auto kRunPolicy = std::to_array<FieldRow>({
    {.path = "spec.runPolicy.cleanPodPolicy", .key = "runPolicy.cleanPodPolicy"},
    {.path = "spec.runPolicy.ttlSecondsAfterFinished", .key = "runPolicy.ttlSecondsAfterFinished"},
    {.path = "spec.runPolicy.activeDeadlineSeconds", .key = "runPolicy.activeDeadlineSeconds"},
    {.path = "spec.runPolicy.backoffLimit", .key = "runPolicy.backoffLimit"},
    {.path = "spec.runPolicy.suspend", .key = "runPolicy.suspend"},
    {.path = "spec.runPolicy.managedBy",
     .outcome = kMind,
     .answer = "names who runs the job there; ours is coxswain.dev/operator"},
    {.path = "spec.runPolicy.schedulingPolicy.minAvailable",
     .key = "runPolicy.schedulingPolicy.minAvailable"},
    {.path = "spec.runPolicy.schedulingPolicy.queue", .key = "runPolicy.schedulingPolicy.queue"},
    {.path = "spec.runPolicy.schedulingPolicy.minResources",
     .key = "runPolicy.schedulingPolicy.minResources"},
    {.path = "spec.runPolicy.schedulingPolicy.priorityClass",
     .key = "runPolicy.schedulingPolicy.priorityClass"},
    {.path = "spec.runPolicy.schedulingPolicy.scheduleTimeoutSeconds",
     .key = "runPolicy.schedulingPolicy.scheduleTimeoutSeconds"},
});

constexpr auto kMainNames = std::to_array<std::string_view>(
    {"trainer", "pytorch", "tensorflow", "mxnet", "mpi", "node", "launcher", "worker"});

// What the operator sets in every pod, or their operator set by hand.
void drop_our_variables(Draft& draft, const std::string& where, Json& container) {
  if (!container.contains("env") || !container["env"].is_array()) return;
  Json rest = Json::array();
  for (const Json& one : container["env"]) {
    const std::string name = job::text_at(one, "name");
    if (is_set_by_operator(name))
      draft.note(kNotNeeded, where + ": env " + name, "the operator sets it in every pod");
    else
      rest.push_back(one);
  }
  container["env"] = rest;
  if (rest.empty()) container.erase("env");
}

constexpr auto kTheirs = std::to_array<std::string_view>(
    {"/etc/volcano/", "VC_TASK_INDEX", "VK_TASK_INDEX", "/etc/mpi/", "K_MPI_JOB_ROLE"});

// A program that asks its operator's own files and variables finds none of them here.
void refuse_their_files(Draft& draft, const std::string& role, const Json& container) {
  for (const std::string& word : words_of(container))
    for (const std::string_view theirs : kTheirs)
      if (word.find(theirs) != std::string::npos)
        draft.no_place(fmt::format("{}: {}", role, theirs),
                       "is of their operator: the pods get /etc/coxswain/hostfile, COXSWAIN_INDEX "
                       "and the variables of `rendezvous`; write the command without it");
}

}  // namespace

std::string Foreign::text(const std::string& key) const {
  const auto found = said.find(key);
  if (found == said.end()) return "";
  return found->second.is_string() ? found->second.get<std::string>() : found->second.dump();
}

void read_fields(const job::JobDocument& document,
                 const std::vector<std::span<const FieldRow>>& tables, Foreign& foreign) {
  Walk(document, tables, foreign).go(document.object, {});
}

std::span<const FieldRow> metadata_rows() { return kMetadata; }
std::span<const FieldRow> run_policy_rows() { return kRunPolicy; }

void take_replicas(Foreign& foreign, const std::string& role, const Json& value) {
  const bool fits = value.is_number_integer() && value >= 0 && value <= job::kMaxWorkers;
  if (!fits) foreign.draft.no_place(role + ".replicas", "is no number of pods");
  foreign.roles[role].replicas = fits ? value.get<int>() : 1;
}

void take_template(Foreign& foreign, const std::string& role, const Json& value) {
  foreign.roles[role].pod_template = value;
}

void take_restart_policy(Foreign& foreign, const std::string& role, const Json& value) {
  foreign.roles[role];
  if (value == "Never") foreign.said["never"] = true;
  if (value == "ExitCode")
    foreign.draft.note(kMind, role + ".restartPolicy: ExitCode",
                       "theirs: 1 to 127 fail the job; list the codes that should in "
                       "failurePolicy.rules");
}

Json* main_container(Json& pod_template) {
  if (!pod_template.is_object() || !job::find(pod_template, "spec")) return nullptr;
  Json& containers = pod_template["spec"]["containers"];
  if (!containers.is_array() || containers.empty()) return nullptr;
  for (const std::string_view name : kMainNames)
    for (Json& one : containers)
      if (job::text_at(one, "name") == name) return &one;
  return containers.front().is_object() ? &containers.front() : nullptr;
}

std::vector<std::string> words_of(const Json& container) {
  std::vector<std::string> words;
  for (const char* key : {"command", "args"})
    if (container.contains(key) && container.at(key).is_array())
      for (const Json& word : container.at(key))
        if (word.is_string()) words.push_back(word.get<std::string>());
  return words;
}

Json our_template(Foreign& foreign, const std::string& role) {
  Json pod = foreign.roles[role].pod_template;
  Json* container = main_container(pod);
  if (!container) {
    foreign.draft.no_place(role + ".template", "has no container");
    return pod;
  }
  refuse_their_files(foreign.draft, role, *container);
  if (!foreign.image.empty()) (*container)["image"] = foreign.image;
  if (pod["spec"]["containers"].size() > 1) (*container)["name"] = "trainer";
  for (Json& one : pod["spec"]["containers"]) drop_our_variables(foreign.draft, role, one);
  if (pod["spec"].erase("restartPolicy") > 0)
    foreign.draft.note(kNotNeeded, role + ".template.spec.restartPolicy",
                       "pods don't restart; the whole gang does");
  if (pod["spec"].erase("schedulerName") > 0)
    foreign.draft.note(kNotNeeded, role + ".template.spec.schedulerName",
                       "runPolicy.schedulingPolicy.gang names the scheduler");
  if (pod.contains("metadata") && pod["metadata"].is_object()) {
    pod["metadata"].erase("creationTimestamp");
    if (pod["metadata"].empty()) pod.erase("metadata");
  }
  return pod;
}

void compare_templates(Foreign& foreign, const std::string& taken, const std::string& other) {
  if (!foreign.has(taken) || !foreign.has(other)) return;
  const Json& ours = foreign.roles[taken].pod_template;
  const Json& theirs = foreign.roles[other].pod_template;
  if (ours == theirs) return;
  std::set<std::string> fields;  // as /spec/containers/0/image, however deep they differ
  for (const Json& one : Json::diff(ours, theirs)) {
    std::string path = one.at("path").get<std::string>();
    std::size_t cut = 0;
    for (int depth = 0; depth < 4 && cut != std::string::npos; ++depth)
      cut = path.find('/', cut + 1);
    fields.insert(path.substr(0, cut));
  }
  std::string paths;
  for (const std::string& field : fields) paths += (paths.empty() ? "" : ", ") + field;
  foreign.draft.note(kMind, other + ".template",
                     fmt::format("differs from {}'s, which all workers get: {}", taken, paths));
}

void finish_policies(Foreign& foreign) {
  Draft& draft = foreign.draft;
  if (foreign.said.contains("never") && !draft.find("runPolicy.backoffLimit")) {
    draft.put("runPolicy.backoffLimit", 0);
    draft.note(kBecame, "restartPolicy: Never", "runPolicy.backoffLimit: 0");
  }
  const std::string policy = "runPolicy.schedulingPolicy";
  const Json* scheduling = draft.find(policy);
  if (!scheduling || scheduling->contains("gang")) return;
  const bool times_out = scheduling->contains("scheduleTimeoutSeconds");
  const char* gang = times_out ? "Coscheduling" : "Volcano";
  if (times_out && scheduling->contains("queue"))
    draft.no_place("schedulingPolicy",
                   "queue is Volcano's, scheduleTimeoutSeconds is coscheduling's: remove one");
  draft.put(policy + ".gang", gang);
  draft.note(
      kMind, "schedulingPolicy",
      fmt::format("gang: {}: there it is a flag of the operator, see which yours has", gang));
}

}  // namespace coxswain::convert
