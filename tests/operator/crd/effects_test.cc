#include <fmt/format.h>
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <set>

#include "crds/generator/crd.h"
#include "operator/cluster/pod.h"
#include "operator/job/job_reader.h"
#include "operator/job/plan.h"
#include "operator/job/roles.h"
#include "operator/job/validation.h"
#include "operator/job/worker_spec.h"
#include "operator/job/yaml.h"
#include "tests/support/job_builders.h"
#include "tests/support/training_changes.h"
#include "trainer/contract/config/config_value.h"

// Every field of a job alters an object other than the ConfigMap, a decision or what the ranks are
// configured with (whose effects are those of test_training_keys); or it is refused.
namespace coxswain::crd {

namespace {

using job::TrainingJob;
using test::JobBuilder;
using test::ObservedBuilder;
using Value = job::Json;

constexpr const char* kTraining = R"({"training": {"model": "mlp", "data": {"format": "mnist"}}})";
constexpr const char* kForeign =
    R"({"replicaSpecs": {"Worker": {"template": {"spec": {"containers": [
        {"name": "trainer", "image": "a:1", "command": ["train"],
         "resources": {"limits": {"nvidia.com/gpu": 4}}}]}}}}})";

// A field, the job in which it is changed (merged into one of two workers), and its values: each
// must differ from all others in what it does.
struct FieldChange {
  std::string pointer;
  std::vector<std::string> job = {kTraining};
  std::vector<std::string> values = {};  // JSON, null: absent; empty: every word, or true and false
  std::string refused = "";              // all but the first value, in these words
};

const std::vector<FieldChange>& field_changes() {
  static const std::string volcano = R"({"runPolicy": {"schedulingPolicy": {"gang": "Volcano"}}})";
  static const std::string coscheduling =
      R"({"runPolicy": {"schedulingPolicy": {"gang": "Coscheduling"}}})";
  static const std::string queue =
      R"({"runPolicy": {"schedulingPolicy": {"gang": "Kueue", "queue": "a"}}})";
  static const std::string rule =
      R"({"failurePolicy": {"rules": [{"action": "RestartIgnoringBackoffLimit"}]}})";
  static const std::string servers =
      R"({"strategy": "ParameterServer", "replicaSpecs": {"Server": {"replicas": 1}}})";
  static const std::vector<FieldChange> kChanges = {
      {"/spec/strategy", {kTraining}},
      {"/spec/launcher", {kForeign}},
      {"/spec/slotsPerWorker", {kForeign}, {"1", "2", R"("auto")"}},
      {"/spec/image", {kTraining}, {R"("a:1")", R"("a:2")"}},
      {"/spec/replicaSpecs/Worker/replicas", {kTraining}, {"1", "2"}},
      {"/spec/replicaSpecs/Worker/template",
       {kTraining},
       {"null", R"({"spec": {"containers": [{"name": "trainer"}]}})",
        R"({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "trainer"}]}})",
        R"({"spec": {"containers": [{"name": "trainer"}], "nodeSelector": {"a": "b"}}})",
        R"({"spec": {"containers": [{"name": "trainer", "image": "a:1"}]}})",
        R"({"spec": {"containers": [{"name": "trainer"}, {"name": "b", "image": "c"}]}})"}},
      {"/spec/replicaSpecs/Server/replicas", {kTraining, servers}, {"1", "2"}},
      {"/spec/replicaSpecs/Server/template",
       {kTraining, servers},
       {"null", R"({"spec": {"containers": [{"name": "trainer"}], "nodeSelector": {"a": "b"}}})"}},
      {"/spec/volumes/data",
       {kTraining},
       {"null", R"({"emptyDir": {}})", R"({"persistentVolumeClaim": {"claimName": "a"}})"}},
      {"/spec/volumes/checkpoints",
       {kTraining},
       {"null", R"({"emptyDir": {}})", R"({"persistentVolumeClaim": {"claimName": "a"}})"}},
      {"/spec/elasticPolicy/minReplicas",
       {kTraining, R"({"elasticPolicy": {"degradedStartAfterSeconds": 30}})"},
       {"1", "2"}},
      {"/spec/elasticPolicy/maxReplicas", {kTraining}, {"3", "4"}},
      {"/spec/elasticPolicy/degradedStartAfterSeconds", {kTraining}, {"30", "60"}},
      {"/spec/elasticPolicy/batch"},
      {"/spec/runPolicy/suspend"},
      {"/spec/runPolicy/backoffLimit", {kTraining}, {"0", "3"}},
      {"/spec/runPolicy/activeDeadlineSeconds", {kTraining}, {"50", "3600"}},
      {"/spec/runPolicy/startupDeadlineSeconds", {kTraining}, {"60", "600"}},
      {"/spec/runPolicy/terminationGracePeriodSeconds", {kTraining}, {"30", "60"}},
      {"/spec/runPolicy/stuckTerminationSeconds", {kTraining}, {"60", "120"}},
      {"/spec/runPolicy/cleanPodPolicy", {kForeign}},
      {"/spec/runPolicy/ttlSecondsAfterFinished", {kTraining}, {"30", "90"}},
      {"/spec/runPolicy/managedBy",
       {kTraining},
       {R"("coxswain.dev/operator")", R"("kueue.x-k8s.io/multikueue")"}},
      {"/spec/runPolicy/schedulingPolicy/gang",
       {kTraining},
       {R"("None")", R"("Volcano")", R"("Coscheduling")"}},
      {"/spec/runPolicy/schedulingPolicy/gang", {kTraining, queue}, {R"("Volcano")", R"("Kueue")"}},
      {"/spec/runPolicy/schedulingPolicy/topologyKey", {kTraining}, {"null", R"("a")", R"("b")"}},
      {"/spec/runPolicy/schedulingPolicy/queue", {kTraining, volcano}, {R"("a")", R"("b")"}},
      {"/spec/runPolicy/schedulingPolicy/priorityClass", {kTraining}, {R"("a")", R"("b")"}},
      {"/spec/runPolicy/schedulingPolicy/minAvailable", {kTraining, volcano}, {"1", "2"}},
      {"/spec/runPolicy/schedulingPolicy/minResources",
       {kTraining, volcano},
       {R"({"cpu": 1})", R"({"cpu": 2})"}},
      {"/spec/runPolicy/schedulingPolicy/scheduleTimeoutSeconds",
       {kTraining, coscheduling},
       {"30", "60"}},
      {"/spec/failurePolicy/rules/0/action", {kTraining, rule}},
      {"/spec/failurePolicy/rules/0/onExitCodes", {kTraining, rule}, {"[1]", "[2]"}},
      {"/spec/failurePolicy/rules/0/onReasons",
       {kTraining, rule},
       {R"(["Evicted"])", R"(["OOMKilled"])"}},
      {"/spec/failurePolicy/rules/0/onRoles",
       {kTraining, rule},
       {R"(["Worker"])", R"(["Server"])"},
       "this job has no Server"},
      {"/spec/successPolicy"},
      {"/spec/rendezvous", {kForeign}, {"[]", R"(["PyTorch"])", R"(["TensorFlow"])"}},
      {"/spec/rendezvous", {kForeign, R"({"launcher": "MPI"})"}, {"[]", R"(["Horovod"])"}},
  };
  return kChanges;
}

// --- the schema ---

bool has_schema_elsewhere(const std::string& pointer) {
  return pointer.ends_with("/template") || pointer.starts_with("/spec/volumes/") ||
         pointer.ends_with("/minResources");
}

// What has a value of its own: lists of words and numbers count as one.
void each_leaf(const Json& schema, const std::string& pointer,
               const std::function<void(const std::string&, const Json&)>& visit) {
  const bool list_of_objects = schema.contains("items") && schema["items"].contains("properties");
  if (has_schema_elsewhere(pointer) || !(schema.contains("properties") || list_of_objects))
    return visit(pointer, schema);
  if (list_of_objects) return each_leaf(schema["items"], pointer + "/0", visit);
  for (const auto& [key, field] : schema["properties"].items())
    each_leaf(field, pointer + "/" + key, visit);
}

std::map<std::string, Json> leaves() {
  std::ifstream in("crds/generator/kubernetes.json");
  const Json crd = training_job_crd(Json::parse(in));
  const Json& root = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
  std::map<std::string, Json> all;
  each_leaf(root["properties"]["spec"], "/spec",
            [&](const std::string& pointer, const Json& schema) { all[pointer] = schema; });
  return all;
}

// The key of the training configuration that a field is; "" for all others.
std::string training_key(const std::string& pointer) {
  std::string key;
  if (pointer.starts_with("/spec/training/")) key = pointer.substr(15);
  if (pointer.starts_with("/spec/checkpoint/")) key = pointer.substr(6);
  std::replace(key.begin(), key.end(), '/', '.');
  return key;
}

// --- what a job does ---

struct Situation {
  const char* name;
  void (*arrange)(JobBuilder& job);
  void (*see)(ObservedBuilder& seen);
};

constexpr Situation kSituations[] = {
    {"new", [](auto&) {}, [](auto&) {}},
    {"queued", [](auto& job) { job.queued(); }, [](auto&) {}},
    {"a node for one", [](auto& job) { job.queued(); },
     [](auto& seen) { seen.after(45).pending(0).scheduled(); }},
    {"slow to start", [](auto& job) { job.starting(); },
     [](auto& seen) { seen.after(70).running(0).pending(1).scheduled(); }},
    {"runs", [](auto& job) { job.running(); }, [](auto& seen) { seen.running(0).running(1); }},
    {"fails", [](auto& job) { job.running(); }, [](auto& seen) { seen.failed(0, 1).running(1); }},
    {"fails once more",
     [](auto& job) {
       job.running(1);
       job.status().restarts.failure = 1;
     },
     [](auto& seen) { seen.failed(0, 1).running(1); }},
    {"runs out of memory",
     [](auto& job) {
       job.running(3);
       job.status().restarts.failure = 3;
     },
     [](auto& seen) { seen.running(0).failed(1, 137).reason("OOMKilled"); }},
    {"its first rank succeeds", [](auto& job) { job.running(); },
     [](auto& seen) { seen.succeeded(0).running(1); }},
    {"restarts", [](auto& job) { job.restarting(1, "Failure"); },
     [](auto& seen) { seen.running(0).attempt(0); }},
    {"a pod does not go", [](auto& job) { job.restarting(1, "Node"); },
     [](auto& seen) { seen.after(180).running(0).attempt(0).terminating(100); }},
    {"ended", [](auto& job) { job.ended(job::Phase::kFailed); },
     [](auto& seen) { seen.failed(0, 1).running(1); }},
    {"asked for four",
     [](auto& job) {
       job.running();
       job.workers(4);
     },
     [](auto& seen) { seen.running(0).running(1); }},
};

std::string decisions(const TrainingJob& job) {
  std::string text;
  for (const Situation& situation : kSituations) {
    JobBuilder builder;
    builder.spec() = job.spec;
    situation.arrange(builder);
    ObservedBuilder seen(builder);
    situation.see(seen);
    text += fmt::format("{}:\n{}", situation.name, to_text(job::plan(builder, seen)));
    for (const job::Problem& problem : job::validate(builder, {}))
      text += "refused: " + to_text(problem) + "\n";
  }
  return text;
}

// The objects of the first gang, without the ConfigMap.
std::string objects(const TrainingJob& job) {
  JobBuilder builder;
  builder.spec() = job.spec;
  builder.queued().status().image = job.spec.image.value_or("coxswain/trainer-cpu");
  const TrainingJob& started = builder;
  std::vector<job::Json> all = {cluster::service(started)};
  if (needs_keys(started.spec)) all.push_back(cluster::secret(started, {}));
  if (job::has_pod_group(started.spec.run_policy.scheduling.gang))
    all.push_back(cluster::pod_group(started));
  for (const job::WorkerId& id : gang(started)) all.push_back(cluster::pod(started, id, "config"));
  std::string text;
  for (const job::Json& object : all) text += "---\n" + job::to_yaml(object);
  return text;
}

TrainingJob read(const Value& spec) {
  return job::read_job(Value{{"apiVersion", job::kApiVersion},
                             {"kind", job::kKind},
                             {"metadata", {{"name", "mnist"}}},
                             {"spec", spec}});
}

Value spec_of(const FieldChange& change, const Value& value) {
  Value object = {{"spec", {{"replicaSpecs", {{"Worker", {{"replicas", 2}}}}}}}};
  for (const std::string& part : change.job) object["spec"].merge_patch(Value::parse(part));
  const Value::json_pointer place(change.pointer);
  object[place] = value;
  if (!value.is_null()) return object["spec"];
  const Value::json_pointer section = place.parent_pointer();
  object[section].erase(place.back());
  if (object[section].empty()) object[section.parent_pointer()].erase(section.back());
  return object["spec"];
}

std::string effects(const TrainingJob& job) {
  std::string problems;
  for (const job::Problem& problem : validate(job, {})) problems += to_text(problem) + "\n";
  return problems.empty() ? objects(job) + decisions(job) : "refused: " + problems;
}

std::vector<Value> values_of(const FieldChange& change, const Json& schema) {
  std::vector<Value> values;
  for (const std::string& text : change.values) values.push_back(Value::parse(text));
  if (!values.empty()) return values;
  if (schema.value("type", "") == "boolean") return {false, true};
  const bool is_list = schema.contains("items");
  if (is_list) values.push_back(Value::array());
  for (const auto& word : (is_list ? schema["items"] : schema).at("enum"))
    values.push_back(is_list ? Value::array({word.get<std::string>()})
                             : Value(word.get<std::string>()));
  return values;
}

void expect_effects(const FieldChange& change, const Json& schema) {
  const std::vector<Value> values = values_of(change, schema);
  ASSERT_GE(values.size(), 2U) << "one value alone changes nothing";
  std::map<std::string, Value> seen;
  for (const Value& value : values) {
    const std::string effect = effects(read(spec_of(change, value)));
    const bool refused = !change.refused.empty() && value != values.front();
    EXPECT_EQ(effect.starts_with("refused: "), refused) << value << ": " << effect;
    if (refused) {
      EXPECT_NE(effect.find(change.refused), effect.npos) << effect;
      continue;
    }
    const auto [same, is_new] = seen.emplace(effect, value);
    EXPECT_TRUE(is_new) << value << " does what " << same->second << " does";
  }
}

// --- training and checkpoint ---

// {"data": {"format": "mnist"}} of the flags; `checkpoint` stands beside `training` in a job.
Value parts_of(const test::ConfigFlags& flags) {
  Value parts = {{"training", Value::object()}};
  for (const auto& [key, text] : flags) {
    if (key == "checkpoint.path") continue;  // the job's volume
    const std::string path = key.starts_with("checkpoint.") ? key : "training." + key;
    std::string pointer = "/" + path;
    std::replace(pointer.begin(), pointer.end(), '.', '/');
    const Value value = Value::parse(text, nullptr, false);
    parts[Value::json_pointer(pointer)] = value.is_discarded() ? Value(text) : value;
  }
  return parts;
}

std::string configured(const TrainingJob& job, const contract::Field& field) {
  EXPECT_EQ(validate(job, {}), std::vector<job::Problem>{}) << field.key;
  const std::string yaml = training_config(job);
  return value_text(field, contract::read_config(yaml, "training.yaml", {}).config);
}

}  // namespace

TEST(Effects, of_every_field_are_asked_for) {
  const std::map<std::string, Json> all = leaves();
  std::set<std::string> known;
  for (const FieldChange& change : field_changes()) {
    known.insert(change.pointer);
    EXPECT_TRUE(all.contains(change.pointer)) << change.pointer << " is no field";
  }
  for (const auto& [pointer, schema] : all) {
    const std::string key = training_key(pointer);
    EXPECT_TRUE(key.empty() ? known.contains(pointer) : test::change_of(key) != nullptr)
        << pointer << ": add a change that alters something";
  }
}

TEST(Effects, differ_with_every_value) {
  const std::map<std::string, Json> all = leaves();
  for (const FieldChange& change : field_changes()) {
    SCOPED_TRACE(change.pointer);
    const auto schema = all.find(change.pointer);
    if (schema != all.end()) expect_effects(change, schema->second);
  }
}

// What a key does in a run is seen by test_training_keys.
TEST(Effects, of_training_keys_reach_the_ranks) {
  for (const auto& [pointer, schema] : leaves()) {
    const test::TrainingChange* change = test::change_of(training_key(pointer));
    if (!change) continue;
    const auto& field = *std::ranges::find(contract::kFields, change->key, &contract::Field::key);
    std::set<std::string> seen;
    for (const std::string_view value : test::values_of(*change)) {
      Value spec = {{"replicaSpecs", {{"Worker", {{"replicas", 2}}}}},
                    {"volumes", {{"checkpoints", {{"emptyDir", Value::object()}}}}}};
      spec.merge_patch(parts_of(test::flags_of(*change, value, "/data")));
      if (value == "tcp") spec["launcher"] = "Env";  // without mpirun
      for (const char* of_servers : {"parameterServer", "communication.compression"})
        if (change->key.starts_with(of_servers)) spec["strategy"] = "ParameterServer";
      EXPECT_TRUE(seen.insert(configured(read(spec), field)).second) << pointer << ": " << value;
    }
  }
}

}  // namespace coxswain::crd
