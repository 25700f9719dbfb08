#include "operator/cluster/kube_cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "operator/cluster/kube_event.h"
#include "operator/cluster/pod.h"
#include "operator/job/gang_view.h"
#include "operator/job/job_reader.h"

namespace coxswain::cluster {

namespace {

using kube::ApiError;
using kube::ObjectMeta;
using std::chrono::milliseconds;

constexpr std::chrono::seconds kRestAfterRejection{10};
constexpr milliseconds kLookAgain{1000};          // for what is on its way out
constexpr std::chrono::minutes kTroubleLasts{2};  // longer than a key rests after a failure

const kube::Resource kVolcanoPodGroups{"scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup"};
const kube::Resource kCoschedulingPodGroups{"scheduling.x-k8s.io", "v1alpha1", "podgroups",
                                            "PodGroup"};

const kube::Resource& pod_groups_of(job::GangScheduler scheduler) {
  return scheduler == job::GangScheduler::kVolcano ? kVolcanoPodGroups : kCoschedulingPodGroups;
}

bool makes_something(const job::Action& action) {
  return std::holds_alternative<job::CreateWorker>(action) ||
         std::holds_alternative<job::EnsureObject>(action);
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
    view_.memory().change(job, [](JobMemory& memory) { memory.stale = true; });
    const int code = answer.error().code;
    if (code == 409 || code == 404) return false;
    give_up(job, "status", answer.error());
  }
  view_.enter_job(*answer);
  view_.memory().change(job, [version = kube::meta_of(*answer).resource_version](
                                 JobMemory& memory) { memory.written = version; });
  options_.recorded(job, status);
  for (const job::Event& event : events)
    options_.report(
        event_object(job, event, status.attempt, options_.reporter, options_.clock.wall()));
  return true;
}

bool KubeCluster::creates_rest(const job::TrainingJob& job) {
  const JobMemory memory = view_.memory().recall(job);
  const bool answered = memory.rejection && memory.rejected_generation != job.metadata.generation;
  const auto left = std::chrono::ceil<milliseconds>(memory.retry_at - options_.clock.now());
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
    view_.memory().change(job, [&](JobMemory& memory) {
      memory.rejection = rejection;
      memory.rejected_generation = job.metadata.generation;
      memory.retry_at = options_.clock.now() + kRestAfterRejection;
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
    view_.memory().change(job, [&](JobMemory& memory) {
      memory.retry_at = std::max(memory.retry_at, options_.clock.now() + look_again);
    });
  const bool accepted = makes_something(actions.front()) && refused == outcomes.end() && !waits;
  if (accepted && view_.memory().recall(job).rejection) {
    view_.memory().change(job, [](JobMemory& memory) { memory.rejection.reset(); });
    options_.wake(key, milliseconds(0));
  }
}

// Notes whom the job waits for by these outcomes, or that they are gone. True: for so long that it
// counts as stuck.
bool KubeCluster::waits_for_predecessor(const job::TrainingJob& job, const job::Action& action,
                                        const std::vector<Outcome>& outcomes) {
  const auto now = std::chrono::floor<job::Seconds>(options_.clock.wall());
  std::optional<job::Predecessor> met;
  for (const Outcome& outcome : outcomes)
    if (const auto* wait = std::get_if<Wait>(&outcome); wait && !met) met = wait->predecessor;
  const bool of_pods = std::holds_alternative<job::CreateWorker>(action);
  bool stuck = false;
  view_.memory().change(job, [&](JobMemory& memory) {
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

void KubeCluster::enter_trouble(const job::TrainingJob& job, const job::Action& action,
                                const ApiError& error) {
  if (error.reason == "NotLeader") return;
  // The text says nothing that differs from one time to the next: each change of it is a write.
  const std::string why = error.code == 0 ? "no answer from the API server" : to_text(error);
  const job::Rejection words{error.reason, fmt::format("{}: {}", to_text(action), why)};
  int times = 0;
  view_.memory().change(job, [&](JobMemory& memory) {
    const bool again = memory.trouble && memory.trouble->kind == action.index();
    times = (again ? memory.trouble->times : 0) + 1;
    memory.trouble = Trouble{action.index(), times, words, options_.clock.now() + kTroubleLasts};
  });
  // The conditions of a job that ended stay as they were.
  if (times == kTroubleTold && job::is_terminal(job.status))
    options_.report(event_object(job, {true, words.reason, words.message}, job.status.attempt,
                                 options_.reporter, options_.clock.wall()));
}

void KubeCluster::forget_trouble(const job::TrainingJob& job, const job::Action& action) {
  bool was_told = false;
  view_.memory().change(job, [&](JobMemory& memory) {
    if (!memory.trouble || memory.trouble->kind != action.index()) return;
    was_told = memory.trouble->times >= kTroubleTold;
    memory.trouble.reset();
  });
  if (was_told) options_.wake(key_of(job), milliseconds(0));
}

Outcome KubeCluster::carry_out(const job::TrainingJob& job, const job::Action& action,
                               const std::string& config_map) {
  if (const auto* object = std::get_if<job::EnsureObject>(&action))
    return ensure(job, object->kind);
  if (const auto* worker = std::get_if<job::CreateWorker>(&action))
    return create(job, worker->id, config_map);
  if (const auto* worker = std::get_if<job::DeleteWorker>(&action)) return remove(job, *worker);
  if (const auto* group = std::get_if<job::DeletePodGroup>(&action)) return remove(job, *group);
  return remove(job);
}

Outcome KubeCluster::ensure(const job::TrainingJob& job, job::ObjectKind kind) {
  switch (kind) {
    case job::ObjectKind::kService:
      return ensure(job, kube::kServices, service(job));
    case job::ObjectKind::kConfigMap:
      return ensure(job, kube::kConfigMaps, config_map(job));
    case job::ObjectKind::kPodGroup:
      return ensure(job, pod_groups_of(job.spec.run_policy.scheduling.gang),
                    cluster::pod_group(job));
    case job::ObjectKind::kSecret:
      break;
  }
  return ensure_keys(job);
}

// Those that this process has just made are there. What was made and not heard of is left to the
// garbage collector.
Outcome KubeCluster::ensure_keys(const job::TrainingJob& given) {
  bool are_there = false;
  view_.memory().change(given, [&](JobMemory& memory) {
    are_there =
        std::exchange(memory.keys_are_new, false) && memory.keys_secret == given.status.keys_secret;
  });
  if (are_there) return Done{};
  job::TrainingJob job = given;
  const bool is_drawn = job.status.keys_secret.empty();
  if (is_drawn) job.status.keys_secret = draw_secret_name(job.metadata.name);
  const JobKeys keys = make_keys(job.metadata.name, job.metadata.name_space);
  const Made made = make({job, kube::kSecrets, secret_name(job)}, secret(job, keys));
  if (std::holds_alternative<Done>(made.outcome) && is_drawn) {
    view_.memory().change(job, [&](JobMemory& memory) {
      memory.keys_secret = job.status.keys_secret;
      memory.keys_are_new = made.present ? true : false;
    });
    options_.wake(key_of(job), milliseconds(0));
  }
  return made.outcome;
}

KubeCluster::Made KubeCluster::make(const Create& create, const kube::Json& wanted) {
  const std::string& name_space = create.job.metadata.name_space;
  const bool is_compared = create.resource.kind == "PodGroup";
  Answer answer = client_.create(create.resource, name_space, wanted,
                                 is_compared ? kube::Extent::kWhole : kube::Extent::kMetadata);
  if (!must_look(create, answer)) return {judge(create, answer, answer), std::move(answer)};
  Answer present = client_.get(create.resource, name_space, create.name);
  return {judge(create, answer, present), std::move(present)};
}

Outcome KubeCluster::ensure(const job::TrainingJob& job, const kube::Resource& resource,
                            const kube::Json& wanted) {
  const Made made = make({job, resource, kube::meta_of(wanted).name}, wanted);
  if (!std::holds_alternative<Done>(made.outcome) || resource.kind != "PodGroup")
    return made.outcome;
  // Fields that others or its defaults put there stay; one of ours is as wanted, to its last
  // member.
  const ObjectMeta meta = kube::meta_of(*made.present);
  const kube::Json spec = made.present->value("spec", kube::Json::object());
  kube::Json change = kube::Json::object();
  for (const auto& [key, value] : wanted.at("spec").items()) {
    const kube::Json there = spec.value(key, kube::Json());
    if (there != value) change[key] = merge_patch(there, value);
  }
  if (change.empty()) return Done{};
  const auto changed = client_.patch(resource, meta.name_space, meta.name, "", {{"spec", change}});
  if (changed) return Done{};
  if (const auto refused = refusal(resource, meta.name, changed.error())) return *refused;
  return changed.error();
}

Outcome KubeCluster::create(const job::TrainingJob& job, const job::WorkerId& id,
                            const std::string& config_map) {
  const Made made = make({job, kube::kPods, job::worker_name(job, id.role, id.index), id},
                         pod(job, id, config_map));
  const bool is_ours =
      made.present && kube::meta_of(*made.present).controller_uid == job.metadata.uid;
  if (is_ours && !std::holds_alternative<job::Rejection>(made.outcome))
    view_.enter_pod(*made.present);
  return made.outcome;
}

Outcome KubeCluster::remove(const job::TrainingJob& job, const job::DeleteWorker& action) {
  const std::string name = job::worker_name(job, action.id.role, action.id.index);
  const Delete asked{action.uid};
  const auto answer = client_.remove(kube::kPods, job.metadata.name_space, name,
                                     {.uid = action.uid,
                                      .resource_version = "",
                                      .grace = action.force ? job::Seconds(0) : action.grace});
  if (!must_look(asked, answer)) {
    if (answer && answer->value("kind", "") == kube::kPods.kind) view_.enter_pod(*answer);
    return judge(asked, answer, answer);
  }
  const Outcome outcome =
      judge(asked, answer, client_.get(kube::kPods, job.metadata.name_space, name));
  if (std::holds_alternative<Done>(outcome)) {
    view_.pod_is_gone(job, action.uid);
    options_.wake(key_of(job), milliseconds(0));
  }
  return outcome;
}

Outcome KubeCluster::remove(const job::TrainingJob& job, const job::DeletePodGroup& action) {
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

Outcome KubeCluster::remove(const job::TrainingJob& job) {
  const kube::DeletePreconditions preconditions{.uid = job.metadata.uid,
                                                .resource_version = job.metadata.resource_version,
                                                .grace = std::nullopt};
  const auto answer =
      client_.remove(kTrainingJobs, job.metadata.name_space, job.metadata.name, preconditions);
  if (answer) return Done{};
  view_.memory().change(job, [](JobMemory& memory) { memory.stale = true; });
  return answer.error().code == 404 ? Outcome{Wait{}} : Outcome{answer.error()};
}

}  // namespace coxswain::cluster
