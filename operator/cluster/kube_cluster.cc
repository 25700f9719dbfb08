#include "operator/cluster/kube_cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "operator/cluster/kube_event.h"
#include "operator/cluster/pod.h"
#include "operator/cluster/pod_json.h"
#include "operator/job/gang_view.h"
#include "operator/job/job_reader.h"
#include "operator/kube/json_reader.h"
#include "trainer/contract/error.h"

namespace coxswain::cluster {

namespace {

using kube::ApiError;
using kube::ObjectMeta;
using std::chrono::milliseconds;

constexpr std::chrono::seconds kRestAfterRejection{10};
constexpr milliseconds kLookAgain{1000};          // for what is on its way out
constexpr int kTroubleTold = 2;                   // failed passes in a row; one is no news
constexpr std::chrono::minutes kTroubleLasts{2};  // longer than a key rests after a failure

const kube::Resource kVolcanoPodGroups{"scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup"};
const kube::Resource kCoschedulingPodGroups{"scheduling.x-k8s.io", "v1alpha1", "podgroups",
                                            "PodGroup"};

const kube::Resource& pod_groups_of(job::GangScheduler scheduler) {
  return scheduler == job::GangScheduler::kVolcano ? kVolcanoPodGroups : kCoschedulingPodGroups;
}

[[noreturn]] void give_up(const job::TrainingJob& job, const std::string& what,
                          const ApiError& error) {
  throw Error(ExitCode::kPeersMissing,
              fmt::format("[cluster] {} of {}/{}: {}", what, job.metadata.name_space,
                          job.metadata.name, to_text(error)));
}

// Answers that are no accident, and stay the same until somebody changes something: quota,
// admission, policy, a kind that is not installed.
bool is_refusal(const ApiError& error) {
  switch (error.code) {
    case 400:
    case 403:
    case 404:
    case 405:
    case 413:
    case 415:
    case 422:
    case 500:  // a webhook that fails is one too
      return true;
    default:
      return false;
  }
}

job::Rejection rejection_of(const kube::Resource& resource, const std::string& name,
                            const ApiError& error) {
  if (error.code == 404 && !resource.group.empty())
    return {"NotInstalled", fmt::format("{} {} is not known to the API server: install its CRD",
                                        api_version(resource), resource.kind)};
  return {error.reason, fmt::format("{} {}: {}", resource.kind, name, error.message)};
}

// An object in our place that is not ours. One of a job that had our name is on its way out.
std::optional<job::Rejection> conflict_with(const kube::Json& present,
                                            const kube::Resource& resource) {
  const ObjectMeta meta = kube::meta_of(present);
  if (meta.terminating) return std::nullopt;
  const auto owners = present.at("metadata").value("ownerReferences", kube::Json::array());
  const bool of_a_job = std::any_of(owners.begin(), owners.end(), [](const kube::Json& owner) {
    return owner.value("kind", "") == job::kKind && owner.value("controller", false);
  });
  if (of_a_job) return std::nullopt;
  return job::Rejection{
      "NameConflict", fmt::format("{} {} exists and is not this job's: delete it, or give the job "
                                  "another name",
                                  resource.kind, meta.name)};
}

job::Predecessor predecessor(const kube::Json& present, const kube::Resource& resource) {
  const kube::Json* spec = find(present, "spec");
  const bool is_pod = resource.kind == kube::kPods.kind;
  return {.kind = resource.kind,
          .name = kube::meta_of(present).name,
          .node = is_pod && spec ? text_at(*spec, "nodeName") : "",
          .since = {}};
}

std::uint64_t version_of(const job::TrainingJob& job) {
  return kube::version_number(job.metadata.resource_version);
}

bool makes_something(const job::Action& action) {
  return std::holds_alternative<job::CreateWorker>(action) ||
         std::holds_alternative<job::EnsureObject>(action);
}

// Rank 0 of a job of ours, in training.
bool tells_progress(const job::TrainingJob& job, const job::Worker& worker) {
  return job.spec.training && worker.id.role == job::Role::kWorker && worker.id.index == 0 &&
         worker.id.attempt == job.status.attempt && worker.ready && !worker.deletion_time;
}

// What turns `before` into `after` (RFC 7386): removed members become null.
kube::Json merge_patch(const kube::Json& before, const kube::Json& after) {
  if (!before.is_object() || !after.is_object()) return after;
  kube::Json patch = kube::Json::object();
  for (const auto& [key, value] : before.items())
    if (!after.contains(key)) patch[key] = nullptr;
  for (const auto& [key, value] : after.items()) {
    if (!before.contains(key)) patch[key] = value;
    if (before.contains(key) && before.at(key) != value)
      patch[key] = merge_patch(before.at(key), value);
  }
  return patch;
}

}  // namespace

std::string key_of(const job::TrainingJob& job) {
  return job.metadata.name_space + "/" + job.metadata.name;
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

KubeCluster::KubeCluster(kube::Client& client, JobStore& jobs, PodStore& pods, KubeOptions options)
    : client_(client),
      jobs_(jobs),
      pods_(pods),
      options_(std::move(options)),
      levels_(client, options_.namespace_unread),
      parallel_(options_.parallel_calls) {}

Job KubeCluster::read(const std::string& key) {
  const auto entry = jobs_.find(key);
  {
    const std::lock_guard lock(mutex_);
    if (!entry) memory_.erase(key);
    const auto found = memory_.find(key);
    const bool stale = found != memory_.end() && found->second.stale;
    if (!entry || !stale) return entry ? entry->value : nullptr;
  }
  const auto answer = client_.get(kTrainingJobs, entry->meta.name_space, entry->meta.name);
  if (!answer && answer.error().code != 404) give_up(*entry->value, "GET", answer.error());
  const std::lock_guard lock(mutex_);
  memory_[key].stale = false;
  if (!answer) return nullptr;  // the watch will tell the store
  const Job job = read_job(*answer);
  jobs_.put_answer(kube::meta_of(*answer), job);
  return job;
}

KubeCluster::Memory KubeCluster::recall(const job::TrainingJob& job) {
  Memory memory;
  change(job, [&](Memory& stored) { memory = stored; });
  return memory;
}

void KubeCluster::change(const job::TrainingJob& job, const std::function<void(Memory&)>& edit) {
  const std::lock_guard lock(mutex_);
  Memory& memory = memory_[key_of(job)];
  if (memory.uid != job.metadata.uid) memory = Memory{};
  memory.uid = job.metadata.uid;
  edit(memory);
}

job::Observed KubeCluster::observe(const job::TrainingJob& job) {
  const Memory memory = recall(job);
  // A status that someone else wrote may tell of pods that our watch has not seen yet; that of a
  // job before its first gang tells of none.
  const std::uint64_t known = std::max(memory.written, pods_.seen_version(job.metadata.name_space));
  if (job.status.attempt_start_time && version_of(job) > known) list_pods(job);
  job::Observed observed;
  observed.now = std::chrono::floor<job::Seconds>(options_.clock());
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
void KubeCluster::date_departures(const job::TrainingJob& job, job::Observed& observed) {
  change(job, [&](Memory& memory) {
    std::map<std::string, SteadyTime> leaving;
    for (job::Worker& worker : observed.workers) {
      if (!worker.deletion_time) continue;
      const auto known = memory.leaving.find(worker.uid);
      const SteadyTime since = known != memory.leaving.end() ? known->second : options_.steady();
      leaving.emplace(worker.uid, since);
      const auto left = std::chrono::ceil<job::Seconds>(since + worker.grace - options_.steady());
      worker.grace_end = observed.now + left;
    }
    memory.leaving = std::move(leaving);
  });
}

// The level counts before a gang is made, and never again.
job::Installation KubeCluster::installation_for(const job::TrainingJob& job) {
  job::Installation found = options_.installation;
  if (job::is_terminal(job.status) || job.status.workers > 0) return found;
  const std::string& name_space = job.metadata.name_space;
  const auto answer = levels_.find(name_space, options_.clock());
  if (!answer) give_up(job, "namespace", answer.error());
  found.pod_security = answer->level.value_or(found.pod_security);
  found.pod_security_doubt = answer->doubt;
  return found;
}

// Asked for after the pods that are there: a pod is remembered before it goes.
std::vector<job::Worker> KubeCluster::failed_and_gone(const job::TrainingJob& job,
                                                      const std::vector<job::Worker>& present) {
  const bool is_over = job.status.completion_time.has_value();
  std::vector<job::Worker> gone;
  change(job, [&](Memory& memory) {
    std::erase_if(memory.failed, [&](const auto& entry) {
      return is_over || entry.second.id.attempt < job.status.attempt - 1;
    });
    for (const auto& [uid, worker] : memory.failed)
      if (std::ranges::find(present, uid, &job::Worker::uid) == present.end())
        gone.push_back(worker);
  });
  return gone;
}

void KubeCluster::list_pods(const job::TrainingJob& job) {
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
  change(job, [&](Memory& memory) { memory.written = std::max(memory.written, version_of(job)); });
}

bool KubeCluster::record(const job::TrainingJob& job, const job::Status& status,
                         const std::vector<job::Event>& events) {
  // A status that nobody wrote yet holds nothing, not even zeros.
  const bool is_first = job.status == job::Status{};
  const kube::Json before = is_first ? kube::Json::object() : job::to_json(job.status);
  const kube::Json patch = {
      {"metadata", {{"resourceVersion", job.metadata.resource_version}, {"uid", job.metadata.uid}}},
      {"status", merge_patch(before, job::to_json(status))}};
  const auto answer =
      client_.patch(kTrainingJobs, job.metadata.name_space, job.metadata.name, "status", patch);
  if (!answer) {
    change(job, [](Memory& memory) { memory.stale = true; });
    const int code = answer.error().code;
    if (code == 409 || code == 404) return false;
    give_up(job, "status", answer.error());
  }
  const ObjectMeta meta = kube::meta_of(*answer);
  jobs_.put_answer(meta, read_job(*answer));
  change(job, [&](Memory& memory) { memory.written = meta.resource_version; });
  options_.recorded(job, status);
  for (const job::Event& event : events)
    options_.report(event_object(job, event, options_.reporter, options_.clock()));
  return true;
}

bool KubeCluster::creates_rest(const job::TrainingJob& job) {
  const Memory memory = recall(job);
  const bool answered = memory.rejection && memory.rejected_generation != job.metadata.generation;
  const auto left = std::chrono::ceil<milliseconds>(memory.retry_at - options_.clock());
  if (answered || left <= milliseconds(0)) return false;
  // A pass that comes for another reason must not put off the next try.
  options_.wake(key_of(job), left);
  return true;
}

void KubeCluster::apply(const job::TrainingJob& job, std::span<const job::Action> actions) {
  const bool creates = makes_something(actions.front());
  if (creates && creates_rest(job)) return;
  // Every pod of a gang names the same one, whose name is a hash of all its content.
  const std::string config_map = creates ? config_map_name(job) : "";
  std::vector<Outcome> outcomes(actions.size());
  std::vector<std::function<void()>> calls;
  for (std::size_t i = 0; i < actions.size(); ++i)
    calls.emplace_back([&, i] { outcomes[i] = carry_out(job, actions[i], config_map); });
  parallel_.run(calls);
  conclude(job, actions, outcomes);
}

// Tells what the calls of one apply() came to. Throws Error if one must be made again.
void KubeCluster::conclude(const job::TrainingJob& job, std::span<const job::Action> actions,
                           const std::vector<Outcome>& outcomes) {
  const std::string key = key_of(job);
  const auto failed = std::ranges::find_if(
      outcomes, [](const Outcome& outcome) { return std::holds_alternative<ApiError>(outcome); });
  const auto refused = std::ranges::find_if(outcomes, [](const Outcome& outcome) {
    return std::holds_alternative<job::Rejection>(outcome);
  });
  const bool waits = std::ranges::any_of(
      outcomes, [](const Outcome& outcome) { return std::holds_alternative<Wait>(outcome); });
  if (refused != outcomes.end()) {
    const auto& rejection = std::get<job::Rejection>(*refused);
    change(job, [&](Memory& memory) {
      memory.rejection = rejection;
      memory.rejected_generation = job.metadata.generation;
      memory.retry_at = options_.clock() + kRestAfterRejection;
    });
    options_.wake(key, milliseconds(0));  // so that the status says so
  }
  if (failed != outcomes.end()) {
    const auto& error = std::get<ApiError>(*failed);
    enter_trouble(job, actions[static_cast<std::size_t>(failed - outcomes.begin())], error);
    give_up(job, "an action", error);
  }
  forget_trouble(job, actions.front());
  const bool stuck = waits_for_predecessor(job, actions.front(), outcomes);
  const milliseconds look_again = stuck ? kRestAfterRejection : kLookAgain;
  if (waits) options_.wake(key, look_again);
  // Workers are made when their objects are there: afterwards nobody looks for these again.
  if (waits && std::holds_alternative<job::EnsureObject>(actions.front()))
    change(job, [&](Memory& memory) {
      memory.retry_at = std::max(memory.retry_at, options_.clock() + look_again);
    });
  const bool accepted = makes_something(actions.front()) && refused == outcomes.end() && !waits;
  if (accepted && recall(job).rejection) {
    change(job, [](Memory& memory) { memory.rejection.reset(); });
    options_.wake(key, milliseconds(0));
  }
}

// Notes whom the job waits for by these outcomes, or that they are gone. True: for so long that it
// counts as stuck.
bool KubeCluster::waits_for_predecessor(const job::TrainingJob& job, const job::Action& action,
                                        const std::vector<Outcome>& outcomes) {
  const auto now = std::chrono::floor<job::Seconds>(options_.clock());
  std::optional<job::Predecessor> met;
  for (const Outcome& outcome : outcomes)
    if (const auto* wait = std::get_if<Wait>(&outcome); wait && !met) met = wait->predecessor;
  const bool of_pods = std::holds_alternative<job::CreateWorker>(action);
  bool stuck = false;
  change(job, [&](Memory& memory) {
    auto& known = memory.predecessor;
    const bool same = known && met && known->kind == met->kind && known->name == met->name;
    if (met && !same) {
      known = met;
      known->since = now;
    }
    // Those of the other kinds were not looked at.
    const bool looked_at = known && of_pods == (known->kind == kube::kPods.kind);
    if (!met && looked_at && makes_something(action)) known.reset();
    stuck = met && now >= stuck_time(job, *known);
  });
  return stuck;
}

// What has failed more than once, for the status.
std::optional<job::Rejection> KubeCluster::trouble_of(const job::TrainingJob& job,
                                                      const Memory& memory) {
  if (!memory.trouble || memory.trouble->times < kTroubleTold) return std::nullopt;
  const auto left = std::chrono::ceil<milliseconds>(memory.trouble->until - options_.steady());
  if (left <= milliseconds(0)) return std::nullopt;
  options_.wake(key_of(job), left);  // to take it back, if nobody tries it any more
  return memory.trouble->words;
}

void KubeCluster::enter_trouble(const job::TrainingJob& job, const job::Action& action,
                                const ApiError& error) {
  if (error.reason == "NotLeader") return;
  // The text says nothing that differs from one time to the next: each change of it is a write.
  const std::string why = error.code == 0 ? "no answer from the API server" : to_text(error);
  const job::Rejection words{error.reason, fmt::format("{}: {}", to_text(action), why)};
  int times = 0;
  change(job, [&](Memory& memory) {
    const bool again = memory.trouble && memory.trouble->kind == action.index();
    times = (again ? memory.trouble->times : 0) + 1;
    memory.trouble = Trouble{action.index(), times, words, options_.steady() + kTroubleLasts};
  });
  // The conditions of a job that ended stay as they were.
  if (times == kTroubleTold && job::is_terminal(job.status))
    options_.report(event_object(job, {true, words.reason, words.message}, options_.reporter,
                                 options_.clock()));
}

void KubeCluster::forget_trouble(const job::TrainingJob& job, const job::Action& action) {
  bool was_told = false;
  change(job, [&](Memory& memory) {
    if (!memory.trouble || memory.trouble->kind != action.index()) return;
    was_told = memory.trouble->times >= kTroubleTold;
    memory.trouble.reset();
  });
  if (was_told) options_.wake(key_of(job), milliseconds(0));
}

KubeCluster::Outcome KubeCluster::carry_out(const job::TrainingJob& job, const job::Action& action,
                                            const std::string& config_map) {
  if (const auto* object = std::get_if<job::EnsureObject>(&action))
    return ensure(job, object->kind);
  if (const auto* worker = std::get_if<job::CreateWorker>(&action))
    return create(job, worker->id, config_map);
  if (const auto* worker = std::get_if<job::DeleteWorker>(&action)) return remove(job, *worker);
  if (const auto* group = std::get_if<job::DeletePodGroup>(&action)) return remove(job, *group);
  return remove(job);
}

KubeCluster::Outcome KubeCluster::ensure(const job::TrainingJob& job, job::ObjectKind kind) {
  switch (kind) {
    case job::ObjectKind::kService:
      return ensure(job, kube::kServices, service(job));
    case job::ObjectKind::kConfigMap:
      return ensure(job, kube::kConfigMaps, config_map(job));
    case job::ObjectKind::kPodGroup:
      return ensure(job, pod_groups_of(job.spec.run_policy.scheduling.gang), pod_group(job));
    case job::ObjectKind::kSecret:
      break;
  }
  return ensure_keys(job);
}

// Secrets can't be read, so that nobody can tell whose the one of a name is. But nobody foresees a
// name that is drawn: if it exists already, it was this very request that made it, and came twice.
// What was made and not heard of is left to the garbage collector.
KubeCluster::Outcome KubeCluster::ensure_keys(const job::TrainingJob& given) {
  job::TrainingJob job = given;
  const bool is_drawn = job.status.keys_secret.empty();
  if (is_drawn) job.status.keys_secret = draw_secret_name(job.metadata.name);
  const JobKeys keys = make_keys(job.metadata.name, job.metadata.name_space);
  const auto answer = client_.create(kube::kSecrets, job.metadata.name_space, secret(job, keys));
  const bool exists = answer || answer.error().reason == "AlreadyExists";
  if (exists && is_drawn) {
    change(job, [&](Memory& memory) { memory.keys_secret = job.status.keys_secret; });
    options_.wake(key_of(job), milliseconds(0));
  }
  if (exists) return Done{};
  if (answer.error().code == 409) return Wait{};  // a quota that is being counted: nothing was made
  if (is_refusal(answer.error()))
    return rejection_of(kube::kSecrets, secret_name(job), answer.error());
  return answer.error();
}

// Makes `wanted`, or finds in its place what the job has there: the object as it is. What is
// another job's of our name is on its way out.
std::variant<kube::Json, KubeCluster::Outcome> KubeCluster::make_or_find(
    const job::TrainingJob& job, const kube::Resource& resource, const kube::Json& wanted) {
  const std::string& name_space = job.metadata.name_space;
  const std::string name = kube::meta_of(wanted).name;
  auto made = client_.create(resource, name_space, wanted);
  if (made) return std::move(*made);
  if (is_refusal(made.error())) return Outcome{rejection_of(resource, name, made.error())};
  if (made.error().code != 409) return Outcome{made.error()};
  auto present = client_.get(resource, name_space, name);
  if (!present && present.error().code == 404) return Outcome{Wait{}};
  if (!present) return Outcome{present.error()};
  if (kube::meta_of(*present).controller_uid == job.metadata.uid) return std::move(*present);
  if (const auto conflict = conflict_with(*present, resource)) return Outcome{*conflict};
  return Outcome{Wait{predecessor(*present, resource)}};
}

KubeCluster::Outcome KubeCluster::ensure(const job::TrainingJob& job,
                                         const kube::Resource& resource, const kube::Json& wanted) {
  const auto found = make_or_find(job, resource, wanted);
  if (const auto* outcome = std::get_if<Outcome>(&found)) return *outcome;
  const auto& present = std::get<kube::Json>(found);
  const ObjectMeta meta = kube::meta_of(present);
  if (meta.terminating) return Wait{};
  if (resource.kind != "PodGroup") return Done{};
  // Fields that others or its defaults put there stay; one of ours is as wanted, to its last
  // member.
  const kube::Json spec = present.value("spec", kube::Json::object());
  kube::Json change = kube::Json::object();
  for (const auto& [key, value] : wanted.at("spec").items()) {
    const kube::Json there = spec.value(key, kube::Json());
    if (there != value) change[key] = merge_patch(there, value);
  }
  if (change.empty()) return Done{};
  const auto changed = client_.patch(resource, meta.name_space, meta.name, "", {{"spec", change}});
  if (changed) return Done{};
  if (is_refusal(changed.error())) return rejection_of(resource, meta.name, changed.error());
  return changed.error();
}

KubeCluster::Outcome KubeCluster::create(const job::TrainingJob& job, const job::WorkerId& id,
                                         const std::string& config_map) {
  const auto found = make_or_find(job, kube::kPods, pod(job, id, config_map));
  if (const auto* outcome = std::get_if<Outcome>(&found)) return *outcome;
  const auto& present = std::get<kube::Json>(found);
  const ObjectMeta meta = kube::meta_of(present);
  const auto worker = worker_of(present);
  // Our watch would never tell of it, nor of its end.
  if ((!worker || job_key_of(present) != key_of(job)) && !meta.terminating)
    return job::Rejection{
        "NameConflict",
        fmt::format("Pod {} has lost its label {}={}, or another of ours: delete it", meta.name,
                    kJobLabel, job.metadata.name)};
  enter_pod(present);
  const bool is_it = worker && worker->id == id && !worker->deletion_time;
  return is_it ? Outcome{Done{}} : Outcome{Wait{}};
}

KubeCluster::Outcome KubeCluster::remove(const job::TrainingJob& job,
                                         const job::DeleteWorker& action) {
  const std::string name = job::worker_name(job, action.id.role, action.id.index);
  const kube::DeletePreconditions preconditions{
      .uid = action.uid,
      .resource_version = "",
      .grace = action.force ? job::Seconds(0) : action.grace};
  const auto answer = client_.remove(kube::kPods, job.metadata.name_space, name, preconditions);
  if (answer) {
    if (answer->value("kind", "") == kube::kPods.kind) enter_pod(*answer);
    return Done{};
  }
  if (answer.error().code != 404 && answer.error().code != 409) return answer.error();
  // Gone, or another took the name; but a webhook that refuses may answer so too.
  const auto present = client_.get(kube::kPods, job.metadata.name_space, name);
  if (!present && present.error().code != 404) return present.error();
  if (present && kube::meta_of(*present).uid == action.uid) return answer.error();
  // This very pod is gone, whatever the watch has said so far.
  for (const auto& entry : pods_.owned_by(job.metadata.uid))
    if (entry.meta.uid == action.uid) pods_.remove_answer(entry.meta);
  options_.wake(key_of(job), milliseconds(0));
  return Done{};
}

KubeCluster::Outcome KubeCluster::remove(const job::TrainingJob& job,
                                         const job::DeletePodGroup& action) {
  const kube::Resource& resource = pod_groups_of(action.scheduler);
  const std::string& name_space = job.metadata.name_space;
  const auto present = client_.get(resource, name_space, pod_group_name(job));
  if (!present && present.error().code == 404) return Done{};  // or its kind is not installed
  if (!present) return present.error();
  const ObjectMeta meta = kube::meta_of(*present);
  if (meta.controller_uid != job.metadata.uid || meta.terminating) return Done{};
  const auto answer =
      client_.remove(resource, name_space, meta.name,
                     {.uid = meta.uid, .resource_version = "", .grace = std::nullopt});
  const bool gone = answer || answer.error().code == 404 || answer.error().code == 409;
  return gone ? Outcome{Done{}} : Outcome{answer.error()};
}

KubeCluster::Outcome KubeCluster::remove(const job::TrainingJob& job) {
  const kube::DeletePreconditions preconditions{.uid = job.metadata.uid,
                                                .resource_version = job.metadata.resource_version,
                                                .grace = std::nullopt};
  const auto answer =
      client_.remove(kTrainingJobs, job.metadata.name_space, job.metadata.name, preconditions);
  if (answer) return Done{};
  change(job, [](Memory& memory) { memory.stale = true; });
  return answer.error().code == 404 ? Outcome{Wait{}} : Outcome{answer.error()};
}

void KubeCluster::heard(const ObjectMeta& meta, const SeenPod& pod) {
  if (pod.worker.phase != job::WorkerPhase::kFailed) return;
  const std::lock_guard lock(mutex_);
  const auto memory = memory_.find(pod.job_key);
  if (memory != memory_.end() && memory->second.uid == meta.controller_uid)
    memory->second.failed[meta.uid] = pod.worker;
}

void KubeCluster::enter_pod(const kube::Json& pod) {
  auto seen = read_pod(pod);
  if (!seen) return;
  const ObjectMeta meta = kube::meta_of(pod);
  heard(meta, *seen);
  pods_.put_answer(meta, std::move(*seen));
}

}  // namespace coxswain::cluster
