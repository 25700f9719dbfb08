#include "crds/generator/spec_schema.h"

#include <fmt/format.h>

#include <vector>

#include "crds/generator/field_schema.h"
#include "crds/generator/training_schema.h"
#include "operator/job/spec.h"

namespace coxswain::crd {

namespace {

Rule slots_rule() {
  return {"type(self) == int ? self >= 1 && self <= 1024 : self == 'auto'",
          "write a number from 1 to 1024, or auto"};
}

Json with_scheduling_rules(Json schema) {
  const auto needs = [](const char* field, const char* gangs, const char* why) {
    return Rule{fmt::format("!has(self.{}) || (has(self.gang) && self.gang in {})", field, gangs),
                why, "", std::string(".") + field};
  };
  constexpr const char* kBoth = "['Volcano', 'Coscheduling']";
  constexpr const char* kNoGroup =
      "only for a gang with a PodGroup: set gang: Volcano or Coscheduling, or remove it";
  return with_rules(
      std::move(schema),
      {needs("queue", "['Volcano', 'Kueue']",
             "only Volcano and Kueue have queues: set gang to one of them, or remove it"),
       Rule{"!has(self.gang) || self.gang != 'Kueue' || has(self.queue)",
            "gang: Kueue needs it: write the name of a LocalQueue", "", ".queue"},
       needs("scheduleTimeoutSeconds", "['Coscheduling']",
             "only coscheduling knows it: set gang: Coscheduling, or remove it"),
       needs("minAvailable", kBoth, kNoGroup), needs("minResources", kBoth, kNoGroup)});
}

Rule at_most_replicas() {
  return {
      "!has(self.elasticPolicy) || !has(self.elasticPolicy.minReplicas) || "
      "self.elasticPolicy.minReplicas <= self.replicaSpecs.Worker.replicas",
      "must be at most replicaSpecs.Worker.replicas", "", ".elasticPolicy.minReplicas"};
}

Rule at_least_replicas() {
  return {
      "!has(self.elasticPolicy) || !has(self.elasticPolicy.maxReplicas) || "
      "self.elasticPolicy.maxReplicas >= self.replicaSpecs.Worker.replicas",
      "must be at least replicaSpecs.Worker.replicas", "", ".elasticPolicy.maxReplicas"};
}

Rule at_most_the_gang() {
  const std::string value = "self.runPolicy.schedulingPolicy.minAvailable";
  return {
      fmt::format("!has(self.runPolicy) || !has(self.runPolicy.schedulingPolicy) || !has({0}) || "
                  "{0} <= self.replicaSpecs.Worker.replicas + "
                  "(has(self.replicaSpecs.Server) ? self.replicaSpecs.Server.replicas : "
                  "self.strategy == 'ParameterServer' ? self.replicaSpecs.Worker.replicas : 0)",
                  value),
      "must be at most the pods of the gang", "", ".runPolicy.schedulingPolicy.minAvailable"};
}

Rule rendezvous_of_launcher() {
  const std::string mpi =
      "(has(self.launcher) ? self.launcher == 'MPI' : self.strategy == 'AllReduce' && "
      "has(self.training))";
  return {
      fmt::format("!has(self.rendezvous) || self.rendezvous.all(f, (f == 'Horovod') == {})", mpi),
      "Horovod's ranks find each other by mpirun, with launcher MPI; the variables of PyTorch "
      "and TensorFlow come with launcher Env: set the launcher, or leave the framework out",
      "", ".rendezvous"};
}

// Parts of `spec` that a job keeps from its first gang on: all but the runPolicy, and the number of
// workers.
std::vector<std::string> fixed_parts() {
  std::vector<std::string> parts;
  job::for_each_row(job::kSpecFields, [&](const auto& row) {
    const std::string key = row.key;
    if (key == "replicaSpecs")
      parts.insert(parts.end(), {key + ".Worker.template", key + ".Server"});
    else
      parts.push_back(key == "runPolicy" ? key + ".schedulingPolicy" : key);
  });
  return parts;
}

// Whether `object` has the part at the path, of which any but the parts of replicaSpecs may lack.
// The API server knows no bound for the cost of an optional (`object.?part`).
std::string has(const std::string& object, const std::string& path) {
  const bool within_optional = path.starts_with("runPolicy.");
  return (within_optional ? fmt::format("has({}.runPolicy) && ", object) : "") +
         fmt::format("has({}.{})", object, path);
}

// Whether the part is the same in both versions, or in neither.
std::string same(const std::string& object, const std::string& old, const std::string& path) {
  return fmt::format("({} ? {} && {}.{} == {}.{} : !({}))", has(object, path), has(old, path),
                     object, path, old, path, has(old, path));
}

std::string is_suspended(const char* job) {
  return fmt::format("(has({0}.spec.runPolicy) && {0}.spec.runPolicy.suspend)", job);
}

constexpr const char* kHasEnded = "(has(oldSelf.status) && has(oldSelf.status.completionTime))";
constexpr const char* kMakeAnew = "delete it and create it anew";

constexpr const char* kSameReplicas =
    "(has(self.spec.elasticPolicy) || "
    "self.spec.replicaSpecs.Worker.replicas == oldSelf.spec.replicaSpecs.Worker.replicas)";

}  // namespace

Json spec_schema(const Json& kubernetes) {
  const Json resources = {{"type", "object"}, {"additionalProperties", {{kIntOrString, true}}}};
  const SchemaContext context{.writer = Writer::kUser,
                              .foreign = {{"PodTemplateSpec", kubernetes.at("PodTemplateSpec")},
                                          {"VolumeSource", kubernetes.at("VolumeSource")},
                                          {"ResourceList", resources},
                                          {"training", training_schema()}}};
  Json schema = object_schema("What is to be run.", job::kSpecFields, context);
  Json& slots = schema["properties"]["slotsPerWorker"];
  slots = with_rules(std::move(slots), {slots_rule()});
  Json& scheduling = schema["properties"]["runPolicy"]["properties"]["schedulingPolicy"];
  scheduling = with_scheduling_rules(std::move(scheduling));
  return with_rules(
      std::move(schema),
      {{"self.strategy == 'ParameterServer' || !has(self.replicaSpecs.Server)",
        "only with strategy ParameterServer; remove it or set the strategy", "",
        ".replicaSpecs.Server"},
       {"self.strategy == 'AllReduce' || !has(self.launcher) || self.launcher == 'Env'",
        "MPI is for AllReduce; use Env or leave it out", "", ".launcher"},
       {"has(self.training) || has(self.replicaSpecs.Worker.template)",
        "write `training`, or a replicaSpecs.Worker.template whose container trains"},
       {"!has(self.checkpoint) || has(self.training)",
        "only with `training`: a program of your own saves as it likes; remove it", "",
        ".checkpoint"},
       {"!has(self.checkpoint) || !has(self.training) || (has(self.volumes) && "
        "has(self.volumes.checkpoints))",
        "nothing is saved without a volume: add volumes.checkpoints, or remove it", "",
        ".checkpoint"},
       at_most_replicas(),
       at_least_replicas(),
       at_most_the_gang(),
       rendezvous_of_launcher(),
       {same("self", "oldSelf", "runPolicy.managedBy"),
        "runPolicy.managedBy can't be changed; make a new job", "", ".runPolicy"}});
}

Rule change_rule() {
  std::string rule = fmt::format(
      "!has(oldSelf.status) || !has(oldSelf.status.attemptStartTime) || {} || {} || "
      "(has(oldSelf.status.conditions) && oldSelf.status.conditions.exists(c, c.type == 'Invalid' "
      "&& c.status == 'True')) || (",
      is_suspended("oldSelf"), is_suspended("self"));
  std::string changed;
  for (const std::string& part : fixed_parts()) {
    const std::string unchanged = same("self.spec", "oldSelf.spec", part);
    rule += unchanged + " && ";
    changed += fmt::format("({} ? '' : ' spec.{}') + ", unchanged, part);
  }
  rule += fmt::format("{})", kSameReplicas);
  changed += fmt::format("({} ? '' : ' spec.replicaSpecs.Worker.replicas')", kSameReplicas);
  const char* advice =
      "set spec.runPolicy.suspend: true to change it; a running job takes changes of runPolicy "
      "alone (but for schedulingPolicy), and of Worker.replicas if it has an elasticPolicy";
  return {
      rule, std::string("fixed once the job has started: ") + advice,
      fmt::format("'fixed once the job has started:' + {} + ({} ? '; it has ended: {}' : '; {}')",
                  changed, kHasEnded, kMakeAnew, advice)};
}

Rule suspend_rule() {
  return {fmt::format("!{} || {} == {}", kHasEnded, is_suspended("self"), is_suspended("oldSelf")),
          fmt::format("the job has ended: {}", kMakeAnew), "", ".spec.runPolicy.suspend"};
}

}  // namespace coxswain::crd
