#include "operator/cluster/kube_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "operator/cluster/pod.h"
#include "operator/cluster/pod_json.h"
#include "operator/job/job_reader.h"
#include "operator/kube/json_reader.h"
#include "trainer/contract/error.h"

namespace coxswain::cluster {

namespace {

using std::chrono::milliseconds;

std::uint64_t version_of(const job::TrainingJob& job) {
  return kube::version_number(job.metadata.resource_version);
}

// Rank 0 of a job of ours, in training.
bool tells_progress(const job::TrainingJob& job, const job::Worker& worker) {
  return job.spec.training && worker.id.role == job::Role::kWorker && worker.id.index == 0 &&
         worker.id.attempt == job.status.attempt && worker.ready && !worker.deletion_time;
}

}  // namespace

void give_up(const job::TrainingJob& job, const std::string& what,
                          const kube::ApiError& error) {
  throw Error(ExitCode::kPeersMissing,
              fmt::format("[cluster] {} of {}/{}: {}", what, job.metadata.name_space,
                          job.metadata.name, to_text(error)));
}

std::optional<SeenPod> read_pod(const kube::Json& pod) {
  auto worker = worker_of(pod);
  if (!worker) return std::nullopt;
  const Json* status = find(pod, "status");
  return SeenPod{std::move(*worker), job_key_of(pod), status ? text_at(*status, "podIP") : ""};
}

Job read_job(const kube::Json& object) {
  const auto member = kube::too_deep(object);
  if (!member) return std::make_shared<const job::TrainingJob>(job::read_job(object));
  job::TrainingJob job = job::read_job(kube::without_mark(object));
  const std::string message = fmt::format("nested deeper than {} levels", kube::kMaxDepth);
  job.problems.insert(job.problems.begin(), {*member, 0, message});
  return std::make_shared<const job::TrainingJob>(std::move(job));
}

KubeView::KubeView(kube::Client& client, JobStore& jobs, PodStore& pods, const KubeOptions& options)
    : client_(client),
      jobs_(jobs),
      pods_(pods),
      options_(options),
      levels_(client, options.namespace_unread) {}

Job KubeView::read(const std::string& key) {
  const auto entry = jobs_.find(key);
  if (!entry) {
    memory_.forget(key);
    return nullptr;
  }
  if (!memory_.is_stale(key)) return entry->value;
  const auto answer = client_.get(kTrainingJobs, entry->meta.name_space, entry->meta.name);
  if (!answer && answer.error().code != 404) give_up(*entry->value, "GET", answer.error());
  memory_.refreshed(key);
  if (!answer) return nullptr;  // the watch will tell the store
  const Job job = read_job(*answer);
  jobs_.put_answer(kube::meta_of(*answer), job);
  return job;
}

job::Observed KubeView::observe(const job::TrainingJob& job) {
  const JobMemory memory = memory_.recall(job);
  // A status that someone else wrote may tell of pods that our watch has not seen yet; that of a
  // job before its first gang tells of none.
  const std::uint64_t known = std::max(memory.written, pods_.seen_version(job.metadata.name_space));
  if (job.status.attempt_start_time && version_of(job) > known) list_pods(job);
  job::Observed observed;
  observed.now = std::chrono::floor<job::Seconds>(options_.clock.wall());
  observed.installation = installation_for(job);
  std::string address;
  for (auto& entry : pods_.owned_by(job.metadata.uid)) {
    if (tells_progress(job, entry.value.worker)) address = entry.value.address;
    observed.workers.push_back(std::move(entry.value.worker));
  }
  date_departures(job, observed);
  observed.gone = failed_and_gone(job, observed.workers);
  observed.keys_secret = memory.keys_secret;
  if (memory.rejection && memory.rejected_generation == job.metadata.generation)
    observed.rejection = memory.rejection;
  if (!observed.rejection) observed.rejection = trouble_of(job, memory);
  if (job.status.workers > 0) observed.predecessor = memory.predecessor;
  contract::ProgressDocument told = options_.ask(job, address);
  observed.progress = std::move(told.progress);
  observed.checkpoint = std::move(told.checkpoint);
  return observed;
}

// A deletionTimestamp is the API server's time: how long a pod has been leaving is counted here.
void KubeView::date_departures(const job::TrainingJob& job, job::Observed& observed) {
  const SteadyTime now = options_.clock.now();
  memory_.change(job, [&](JobMemory& memory) {
    std::map<std::string, SteadyTime> leaving;
    for (job::Worker& worker : observed.workers) {
      if (!worker.deletion_time) continue;
      const auto known = memory.leaving.find(worker.uid);
      const SteadyTime since = known != memory.leaving.end() ? known->second : now;
      leaving.emplace(worker.uid, since);
      const auto left = std::chrono::ceil<job::Seconds>(since + worker.grace - now);
      worker.grace_end = observed.now + left;
    }
    memory.leaving = std::move(leaving);
  });
}

// The level counts before a gang is made, and never again.
job::Installation KubeView::installation_for(const job::TrainingJob& job) {
  job::Installation found = options_.installation;
  if (job::is_terminal(job.status) || job.status.workers > 0) return found;
  const std::string& name_space = job.metadata.name_space;
  const auto answer = levels_.find(name_space, options_.clock.now());
  if (!answer) give_up(job, "namespace", answer.error());
  found.pod_security = answer->level.value_or(found.pod_security);
  found.pod_security_doubt = answer->doubt;
  return found;
}

// Asked for after the pods that are there: a pod is remembered before it goes.
std::vector<job::Worker> KubeView::failed_and_gone(const job::TrainingJob& job,
                                                      const std::vector<job::Worker>& present) {
  const bool is_over = job.status.completion_time.has_value();
  std::vector<job::Worker> gone;
  memory_.change(job, [&](JobMemory& memory) {
    std::erase_if(memory.failed, [&](const auto& entry) {
      return is_over || entry.second.id.attempt < job.status.attempt - 1;
    });
    for (const auto& [uid, worker] : memory.failed)
      if (std::ranges::find(present, uid, &job::Worker::uid) == present.end())
        gone.push_back(worker);
  });
  return gone;
}

void KubeView::list_pods(const job::TrainingJob& job) {
  const kube::ListQuery query{.name_space = job.metadata.name_space,
                              .label_selector = fmt::format("{}={}", kJobLabel, job.metadata.name)};
  std::vector<std::string> present;
  const auto version = client_.list(
      kube::kPods, query,
      [&](const kube::Json& pod) {
        present.push_back(kube::meta_of(pod).uid);
        enter_pod(pod);
      },
      [&] { present.clear(); });
  if (!version) give_up(job, "list of the pods", version.error());
  for (const auto& entry : pods_.owned_by(job.metadata.uid))
    if (std::ranges::find(present, entry.meta.uid) == present.end())
      pods_.remove_answer(entry.meta);
  memory_.change(job, [&](JobMemory& memory) {
    memory.written = std::max(memory.written, version_of(job));
  });
}

// What has failed more than once, for the status.
std::optional<job::Rejection> KubeView::trouble_of(const job::TrainingJob& job,
                                                   const JobMemory& memory) {
  if (!memory.trouble || memory.trouble->times < kTroubleTold) return std::nullopt;
  const auto left = std::chrono::ceil<milliseconds>(memory.trouble->until - options_.clock.now());
  if (left <= milliseconds(0)) return std::nullopt;
  options_.wake(key_of(job), left);  // to take it back, if nobody tries it any more
  return memory.trouble->words;
}

void KubeView::heard(const kube::ObjectMeta& meta, const SeenPod& pod) {
  if (pod.worker.phase == job::WorkerPhase::kFailed)
    memory_.failed(pod.job_key, meta.controller_uid, pod.worker);
}

void KubeView::enter_job(const kube::Json& job) {
  jobs_.put_answer(kube::meta_of(job), read_job(job));
}

void KubeView::enter_pod(const kube::Json& pod) {
  auto seen = read_pod(pod);
  if (!seen) return;
  const kube::ObjectMeta meta = kube::meta_of(pod);
  heard(meta, *seen);
  pods_.put_answer(meta, std::move(*seen));
}

void KubeView::pod_is_gone(const job::TrainingJob& job, const std::string& uid) {
  for (const auto& entry : pods_.owned_by(job.metadata.uid))
    if (entry.meta.uid == uid) pods_.remove_answer(entry.meta);
}

}  // namespace coxswain::cluster
