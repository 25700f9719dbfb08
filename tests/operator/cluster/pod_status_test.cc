#include <gtest/gtest.h>

#include <string>

#include "operator/cluster/pod.h"
#include "operator/job/job_reader.h"
#include "operator/job/status.h"
#include "tests/operator/cluster/pod_fixtures.h"
#include "trainer/contract/rfc3339.h"

namespace coxswain::test {

namespace {

using job::Json;
using job::WorkerPhase;

constexpr const char* kMessage =
    R"({"exitCode":71,"rank":2,"phase":"AllReduce","reason":"PeerLost",
        "message":"rank 1 is gone"})";

// A pod of the MPI job as the API server gives it back, with this status (YAML would hide the
// types: JSON).
Json pod_with(const std::string& status) {
  Json pod = cluster::pod(started(job::read_job(kMpiJob, "job.yaml")), {job::Role::kWorker, 1, 1});
  pod["metadata"]["uid"] = "pod-uid";
  pod["status"] = Json::parse(status);
  return pod;
}

// "phase scheduled ready exit=1 reason=Error disruption=... message", absent parts left out.
std::string summary(const job::Worker& worker) {
  std::string text(word(worker.phase));
  if (worker.scheduled) text += " scheduled";
  if (worker.ready) text += " ready";
  if (worker.lingers) text += " lingers";
  if (worker.exit_code) text += " exit=" + std::to_string(*worker.exit_code);
  if (!worker.reason.empty()) text += " reason=" + worker.reason;
  if (!worker.disruption.empty()) text += " disruption=" + worker.disruption;
  if (worker.finished_time) text += " finished=" + to_rfc3339(*worker.finished_time);
  if (!worker.message.empty()) text += ": " + worker.message;
  return text;
}

std::string summary(const std::string& status) {
  return summary(*cluster::worker_of(pod_with(status)));
}

std::string terminated(const std::string& fields) {
  return R"({"phase":"Failed","containerStatuses":[{"name":"trainer","state":{"terminated":{)" +
         fields + "}}}]}";
}

}  // namespace

TEST(PodStatus, tells_who_the_worker_is) {
  const job::TrainingJob job = started(job::read_job(kMpiJob, "job.yaml"), 3);
  for (const job::WorkerId& id : {job::WorkerId{job::Role::kWorker, 0, 3},
                                  {job::Role::kWorker, 4095, 3},
                                  {job::Role::kServer, 1, 3}}) {
    Json pod = cluster::pod(job, id);
    pod["metadata"]["uid"] = "pod-uid";
    pod["spec"]["nodeName"] = "node-7";
    const auto worker = cluster::worker_of(pod);
    ASSERT_TRUE(worker) << to_text(id);
    EXPECT_EQ(worker->id, id);
    EXPECT_EQ(worker->uid, "pod-uid");
    EXPECT_EQ(worker->node, "node-7");
    EXPECT_EQ(cluster::job_key_of(pod), "team/mnist");
  }
}

TEST(PodStatus, is_the_trainer_containers_state) {
  const std::pair<const char*, const char*> rows[] = {
      {"{}", "Pending"},
      {R"({"phase":"Pending"})", "Pending"},
      {R"({"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False",
           "reason":"Unschedulable","message":"0/3 nodes are available"}]})",
       "Pending reason=Unschedulable: 0/3 nodes are available"},
      {R"({"phase":"Pending","conditions":[{"type":"PodScheduled","status":"True"}],
           "containerStatuses":[{"name":"trainer","state":{"waiting":{"reason":"ImagePullBackOff",
           "message":"Back-off pulling image \"x\""}}}]})",
       "Pending scheduled reason=ImagePullBackOff: Back-off pulling image \"x\""},
      {R"({"phase":"Pending","conditions":[{"type":"PodScheduled","status":"True"}],
           "containerStatuses":[{"name":"trainer","state":{"waiting":{
           "reason":"CreateContainerConfigError","message":"secret \"s\" not found"}}}]})",
       "Pending scheduled reason=CreateContainerConfigError: secret \"s\" not found"},
      {R"({"phase":"Running","containerStatuses":[{"name":"trainer","state":{"running":{}}}]})",
       "Running"},
      {R"({"phase":"Running","conditions":[{"type":"PodScheduled","status":"True"},
           {"type":"Ready","status":"True"}],
           "containerStatuses":[{"name":"trainer","state":{"running":{}}}]})",
       "Running scheduled ready"},
      // Played pods may have a phase and conditions alone.
      {R"({"phase":"Running","conditions":[{"type":"Ready","status":"True"}]})", "Running ready"},
      {R"({"phase":"Succeeded"})", "Succeeded exit=0"},
      // Sidecars live on, or are ended by the kubelet: neither is the worker's end.
      {R"({"phase":"Running","conditions":[{"type":"Ready","status":"True"}],"containerStatuses":[
           {"name":"log","state":{"running":{}}},
           {"name":"trainer","state":{"terminated":{"exitCode":0,"reason":"Completed"}}}]})",
       "Succeeded lingers exit=0 reason=Completed"},
      {R"({"phase":"Failed","containerStatuses":[
           {"name":"log","state":{"terminated":{"exitCode":143}}},
           {"name":"trainer","state":{"terminated":{"exitCode":0,"reason":"Completed"}}}]})",
       "Succeeded exit=0 reason=Completed"},
      {R"({"phase":"Running","containerStatuses":[
           {"name":"log","state":{"terminated":{"exitCode":1}}},
           {"name":"trainer","state":{"running":{}}}]})",
       "Running"},
  };
  for (const auto& [status, expected] : rows) EXPECT_EQ(summary(status), expected) << status;
}

TEST(PodStatus, tells_how_the_trainer_ended) {
  const std::pair<std::string, std::string> rows[] = {
      {terminated(R"("exitCode":1,"reason":"Error","finishedAt":"2026-01-31T12:00:00Z",
                     "message":"Traceback:\n  File x\nRuntimeError: no data\n\n")"),
       "Failed exit=1 reason=Error finished=2026-01-31T12:00:00Z: RuntimeError: no data"},
      {terminated(R"("exitCode":137,"reason":"OOMKilled")"), "Failed exit=137 reason=OOMKilled"},
      {terminated(R"("exitCode":0,"signal":9)"), "Failed exit=137"},
      {terminated(R"("exitCode":128,"reason":"StartError","message":"exec: \"x\": not found")"),
       "Failed exit=128 reason=StartError: exec: \"x\": not found"},
      {terminated(R"("exitCode":71,"reason":"Error","message":)" + Json(kMessage).dump()),
       "Failed exit=71 reason=Error: rank 1 is gone"},
  };
  for (const auto& [status, expected] : rows) EXPECT_EQ(summary(status), expected) << status;
  const auto worker = cluster::worker_of(
      pod_with(terminated(R"("exitCode":71,"message":)" + Json(kMessage).dump())));
  ASSERT_TRUE(worker->termination_message);
  EXPECT_EQ(worker->termination_message->rank, 2);
  EXPECT_EQ(worker->termination_message->reason, "PeerLost");
  EXPECT_EQ(worker->message, "rank 1 is gone");
}

TEST(PodStatus, tells_what_init_containers_are_about) {
  const std::pair<const char*, const char*> rows[] = {
      {R"({"phase":"Pending","initContainerStatuses":[{"name":"fetch","state":{"running":{}}}],
           "containerStatuses":[{"name":"trainer","state":{"waiting":{
           "reason":"PodInitializing"}}}]})",
       "Pending reason=PodInitializing"},
      {R"({"phase":"Pending","initContainerStatuses":[{"name":"fetch","state":{"waiting":{
           "reason":"ImagePullBackOff","message":"no such image"}}}],
           "containerStatuses":[{"name":"trainer","state":{"waiting":{
           "reason":"PodInitializing"}}}]})",
       "Pending reason=ImagePullBackOff: init container fetch: no such image"},
      {R"({"phase":"Failed","initContainerStatuses":[
           {"name":"ok","state":{"terminated":{"exitCode":0}}},
           {"name":"fetch","state":{"terminated":{"exitCode":3,"reason":"Error","message":"404"}}}],
           "containerStatuses":[{"name":"trainer","state":{"waiting":{
           "reason":"PodInitializing"}}}]})",
       "Failed exit=3 reason=Error: init container fetch: 404"},
  };
  for (const auto& [status, expected] : rows) EXPECT_EQ(summary(status), expected) << status;
}

TEST(PodStatus, tells_what_the_cluster_did_to_the_pod) {
  const std::pair<const char*, const char*> rows[] = {
      // Without container statuses there is no exit code.
      {R"({"phase":"Failed","reason":"UnexpectedAdmissionError","message":"no devices"})",
       "Failed reason=UnexpectedAdmissionError: no devices"},
      {R"({"phase":"Failed","reason":"Evicted","message":"The node was low on memory",
           "conditions":[{"type":"DisruptionTarget","status":"True",
           "reason":"TerminationByKubelet"}],
           "containerStatuses":[{"name":"trainer","state":{"terminated":{"exitCode":137,
           "reason":"Error"}}}]})",
       "Failed exit=137 reason=Evicted disruption=TerminationByKubelet: The node was low on "
       "memory"},
      // A node that is gone tells no more of its containers.
      {R"({"phase":"Failed","conditions":[{"type":"DisruptionTarget","status":"True",
           "reason":"DeletionByPodGC"}],
           "containerStatuses":[{"name":"trainer","state":{"running":{}}}]})",
       "Failed disruption=DeletionByPodGC"},
      {R"({"phase":"Running","conditions":[{"type":"DisruptionTarget","status":"True",
           "reason":"PreemptionByScheduler"}],
           "containerStatuses":[{"name":"trainer","state":{"running":{}}}]})",
       "Running disruption=PreemptionByScheduler"},
      {R"({"phase":"Running","conditions":[{"type":"DisruptionTarget","status":"False",
           "reason":"PreemptionByScheduler"}],
           "containerStatuses":[{"name":"trainer","state":{"running":{}}}]})",
       "Running"},
      // What comes to a pod whose trainer has long ended did not end it; clocks may differ a
      // little.
      {R"({"phase":"Running","conditions":[{"type":"DisruptionTarget","status":"True",
           "reason":"EvictionByEvictionAPI","lastTransitionTime":"2026-01-31T12:00:11Z"}],
           "containerStatuses":[{"name":"trainer","state":{"terminated":{"exitCode":0,
           "finishedAt":"2026-01-31T12:00:00Z"}}}]})",
       "Succeeded lingers exit=0 finished=2026-01-31T12:00:00Z"},
      {R"({"phase":"Running","conditions":[{"type":"DisruptionTarget","status":"True",
           "reason":"EvictionByEvictionAPI","lastTransitionTime":"2026-01-31T12:00:10Z"}],
           "containerStatuses":[{"name":"trainer","state":{"terminated":{"exitCode":0,
           "finishedAt":"2026-01-31T12:00:00Z"}}}]})",
       "Succeeded lingers exit=0 disruption=EvictionByEvictionAPI finished=2026-01-31T12:00:00Z"},
  };
  for (const auto& [status, expected] : rows) EXPECT_EQ(summary(status), expected) << status;
  Json pod = pod_with("{}");
  pod["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z";
  EXPECT_EQ(cluster::worker_of(pod)->deletion_time, parse_rfc3339("2026-01-31T12:00:00Z"));
}

TEST(PodStatus, finds_the_trainer_under_any_name) {
  Json pod =
      cluster::pod(started(job::read_job(kForeignJob, "job.yaml")), {job::Role::kWorker, 0, 1});
  pod["status"] = Json::parse(R"({"phase":"Running","containerStatuses":[
      {"name":"istio-proxy","state":{"running":{}}},
      {"name":"pytorch","state":{"terminated":{"exitCode":5}}}]})");
  EXPECT_EQ(cluster::worker_of(pod)->exit_code, 5);
  pod["metadata"].erase("annotations");
  pod["status"]["containerStatuses"].erase(0);
  EXPECT_EQ(cluster::worker_of(pod)->exit_code, 5) << "the only one";
}

TEST(PodStatus, keeps_long_messages_short) {
  std::string text(3000, 'x');
  text[508] = '\xc3';  // a character of two bytes across the limit
  text[509] = '\xa9';
  const auto worker =
      cluster::worker_of(pod_with(terminated(R"("exitCode":1,"message":)" + Json(text).dump())));
  EXPECT_EQ(worker->message, std::string(508, 'x') + "...");
}

TEST(PodStatus, of_other_pods_is_none) {
  for (const char* text :
       {"null", "[]", "7", "{}", R"({"metadata":null})", R"({"metadata":{"labels":[]}})",
        R"({"metadata":{"labels":{"coxswain.dev/job":"x"}}})",
        R"({"metadata":{"labels":{"coxswain.dev/attempt":"0","training.kubeflow.org/replica-type":
            "launcher","training.kubeflow.org/replica-index":"0"}}})",
        R"({"metadata":{"labels":{"coxswain.dev/attempt":"0","training.kubeflow.org/replica-type":
            "worker","training.kubeflow.org/replica-index":"-1"}}})",
        R"({"metadata":{"labels":{"coxswain.dev/attempt":"99999999999",
            "training.kubeflow.org/replica-type":
            "worker","training.kubeflow.org/replica-index":"1"}}})",
        R"({"metadata":{"labels":{"coxswain.dev/attempt":"1x","training.kubeflow.org/replica-type":
            "worker","training.kubeflow.org/replica-index":"1"}}})"})
    EXPECT_FALSE(cluster::worker_of(Json::parse(text))) << text;
  Json pod = pod_with("{}");
  ASSERT_TRUE(cluster::worker_of(pod));
  pod["metadata"]["labels"]["training.kubeflow.org/replica-index"] = "0";
  EXPECT_FALSE(cluster::worker_of(pod)) << "mnist-worker-1, which says that it is the first";
  EXPECT_EQ(cluster::job_key_of(Json()), "");
  EXPECT_EQ(cluster::job_key_of(Json::parse(R"({"metadata":{"labels":{"coxswain.dev/job":3}}})")),
            "");
}

// Whatever stands at any place of a pod, reading it neither throws nor loses who it is.
TEST(PodStatus, takes_any_json_at_any_place) {
  const Json whole = pod_with(R"({"phase":"Failed","reason":"Evicted","message":"m",
      "conditions":[{"type":"DisruptionTarget","status":"True","reason":"r",
      "lastTransitionTime":"2026-01-31T12:00:00Z"},{"type":"PodScheduled","status":"False"}],
      "initContainerStatuses":[{"name":"i","state":{"waiting":{"reason":"r"}}}],
      "containerStatuses":[{"name":"trainer","state":{"terminated":{"exitCode":1,"signal":2,
      "reason":"Error","message":"m","finishedAt":"2026-01-31T12:00:00Z"}}}]})");
  const Json odd[] = {nullptr,
                      true,
                      -1,
                      1e300,
                      18446744073709551615ULL,
                      "text",
                      "\xff",
                      Json::array(),
                      Json::object(),
                      Json::array({nullptr, Json::array()})};
  int places = 0;
  const Json leaves = whole.flatten();
  for (const auto& [path, value] : leaves.items()) {
    // The value itself, then everything that it stands in.
    for (Json::json_pointer place(path); !place.empty(); place = place.parent_pointer()) {
      if (place.to_string().starts_with("/metadata/labels")) continue;
      for (const Json& other : odd) {
        Json pod = whole;
        pod[place] = other;
        const bool whole_name = pod.contains("metadata") && pod["metadata"].is_object() &&
                                pod["metadata"].contains("labels") &&
                                pod["metadata"]["name"] == whole["metadata"]["name"];
        EXPECT_EQ(cluster::worker_of(pod).has_value(), whole_name) << place << " " << other;
        cluster::job_key_of(pod);
        ++places;
      }
    }
  }
  EXPECT_GT(places, 1000);
}

}  // namespace coxswain::test
