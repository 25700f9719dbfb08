#include "operator/cluster/judge.h"

#include <gtest/gtest.h>

#include "operator/cluster/pod.h"
#include "tests/support/job_builders.h"

namespace coxswain::cluster {
namespace {

using kube::Json;

// The present object's place in the answers of a GET.
Answer status(int code, const std::string& reason) {
  return kube::ApiError{.code = code, .reason = reason, .message = "words", .retry_after = {}};
}
const Answer kNone = status(404, "NotFound");
const Answer kExists = status(409, "AlreadyExists");
const Answer kConflict = status(409, "Conflict");
const Answer kSilence = status(0, "NoAnswer");

job::TrainingJob job_of(const std::string& uid) {
  job::TrainingJob job = test::make_job();
  job.metadata.uid = uid;
  job.metadata.name = "mnist";
  job.metadata.name_space = "lab";
  return job;
}

// worker-0 of the attempt as the job with this uid makes it.
Json pod_of(const std::string& uid, int attempt) {
  Json made = pod(job_of(uid), {job::Role::kWorker, 0, attempt});
  made["metadata"]["uid"] = "pod-of-" + uid;
  return made;
}

Json with(Json object, const char* pointer, const Json& value) {
  object[Json::json_pointer(pointer)] = value;
  return object;
}
Json leaving(const Json& object) {
  return with(with(object, "/metadata/deletionTimestamp", "2026-01-01T00:00:00Z"), "/spec/nodeName",
              "node-1");
}
Json foreign() { return {{"metadata", {{"name", "mnist-worker-0"}, {"uid", "foreign"}}}}; }

std::string text(const Outcome& outcome) {
  if (std::holds_alternative<Done>(outcome)) return "done";
  if (const auto* error = std::get_if<kube::ApiError>(&outcome)) return "error " + error->reason;
  if (const auto* refused = std::get_if<job::Rejection>(&outcome)) return refused->reason;
  const auto& before = std::get<Wait>(outcome).predecessor;
  return before ? "wait for " + before->kind + " " + before->name + " " + before->node : "wait";
}

struct JudgeCase {
  const char* name;
  Answer answer;
  std::optional<Answer> present;  // nullopt: nobody looks
  const char* outcome;
};

template <class Asked>
void check(const Asked& asked, const std::vector<JudgeCase>& rows) {
  for (const JudgeCase& row : rows) {
    EXPECT_EQ(must_look(asked, row.answer), row.present.has_value()) << row.name;
    EXPECT_EQ(text(judge(asked, row.answer, row.present.value_or(row.answer))), row.outcome)
        << row.name;
  }
}

TEST(Judge, create_of_a_pod) {
  const job::TrainingJob job = job_of("ours");
  const Create asked{job, kube::kPods, "mnist-worker-0", job::WorkerId{job::Role::kWorker, 0, 2}};
  const auto unlabelled = [](const char* label) {
    Json object = pod_of("ours", 2);
    object["metadata"]["labels"].erase(label);
    return object;
  };
  check(
      asked,
      {{"created", pod_of("ours", 2), {}, "done"},
       {"created, and stripped of its label", unlabelled(kJobLabel), {}, "NameConflict"},
       {"ours already", kExists, pod_of("ours", 2), "done"},
       {"ours already, after a conflict", kConflict, pod_of("ours", 2), "done"},
       {"ours, of an older attempt", kExists, pod_of("ours", 1), "wait"},
       {"ours, of a newer attempt", kExists, pod_of("ours", 3), "wait"},
       {"ours, leaving", kExists, leaving(pod_of("ours", 2)), "wait"},
       {"ours, without its attempt", kExists, unlabelled(kAttemptLabel), "NameConflict"},
       {"ours, without its attempt, leaving", kExists, leaving(unlabelled(kAttemptLabel)), "wait"},
       {"of an earlier job", kExists, pod_of("earlier", 2), "wait for Pod mnist-worker-0 "},
       {"of an earlier job, leaving", kExists, leaving(pod_of("earlier", 2)),
        "wait for Pod mnist-worker-0 node-1"},
       {"foreign", kExists, foreign(), "NameConflict"},
       {"foreign, leaving", kExists, leaving(foreign()), "wait for Pod mnist-worker-0 node-1"},
       {"gone by now", kExists, kNone, "wait"},
       {"what is there is not told", kExists, kSilence, "error NoAnswer"},
       {"a quota", status(403, "Forbidden"), {}, "Forbidden"},
       {"a webhook that fails", status(500, "InternalError"), {}, "InternalError"},
       {"the namespace is gone", kNone, {}, "NotFound"},
       {"too many requests", status(429, "TooManyRequests"), {}, "error TooManyRequests"},
       {"no answer", kSilence, {}, "error NoAnswer"},
       {"the lease is lost", status(0, "NotLeader"), {}, "error NotLeader"}});
}

TEST(Judge, create_of_another_object) {
  const job::TrainingJob job = job_of("ours");
  const kube::Resource groups{"scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup"};
  check(Create{job, groups, "mnist"},
        {{"created", service(job), {}, "done"},
         {"ours already", kExists, service(job), "done"},
         {"ours, leaving", kExists, leaving(service(job)), "wait"},
         {"of an earlier job", kExists, service(job_of("earlier")), "wait for PodGroup mnist "},
         {"foreign", kExists, foreign(), "NameConflict"},
         {"its kind is not installed", kNone, {}, "NotInstalled"}});
}

// Nobody may look at a Secret.
TEST(Judge, create_of_the_keys) {
  const job::TrainingJob job = job_of("ours");
  check(Create{job, kube::kSecrets, "mnist-keys-0123456789abcdef"},
        {{"created", Json::object(), {}, "done"},
         {"made by this very request", kExists, {}, "done"},
         {"a quota is being counted", kConflict, {}, "wait"},
         {"a quota", status(403, "Forbidden"), {}, "Forbidden"},
         {"no answer", kSilence, {}, "error NoAnswer"}});
}

TEST(Judge, delete_of_a_pod) {
  check(Delete{"pod-of-ours"},
        {{"told to leave", leaving(pod_of("ours", 2)), {}, "done"},
         {"gone", kNone, kNone, "done"},
         {"another has the name", kConflict, pod_of("earlier", 2), "done"},
         {"a webhook refuses as if it were gone", kNone, pod_of("ours", 2), "error NotFound"},
         {"a webhook refuses as if it changed", kConflict, pod_of("ours", 2), "error Conflict"},
         {"what is there is not told", kConflict, kSilence, "error NoAnswer"},
         {"refused", status(403, "Forbidden"), {}, "error Forbidden"},
         {"no answer", kSilence, {}, "error NoAnswer"}});
}

}  // namespace
}  // namespace coxswain::cluster
