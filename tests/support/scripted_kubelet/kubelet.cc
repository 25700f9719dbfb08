#include "tests/support/scripted_kubelet/kubelet.h"

#include <fmt/format.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <utility>

#include "operator/controller/interruptible_sleep.h"
#include "tests/support/scripted_kubelet/pod_status.h"
#include "trainer/contract/error.h"
#include "trainer/contract/rfc3339.h"

namespace coxswain::scripted {

namespace {

constexpr int kNodes = 4;
constexpr std::chrono::seconds kHeartbeat{10};

const kube::Resource kNodesResource{"", "v1", "nodes", "Node"};
const kube::Resource kBindings{"", "v1", "bindings", "Binding"};

std::string node_name(std::size_t number) { return fmt::format("scripted-node-{}", number); }

std::string now() { return to_rfc3339(std::chrono::system_clock::now()); }

std::string text_at(const Json& object, const char* part, const char* key) {
  const auto inner = object.find(part);
  return inner != object.end() && inner->is_object() ? inner->value(key, "") : "";
}

Stage stage_of(const Json& pod) {
  const std::string phase = text_at(pod, "status", "phase");
  if (phase == "Running") return Stage::kRunning;
  if (phase == "Succeeded" || phase == "Failed") return Stage::kEnded;
  return text_at(pod, "spec", "nodeName").empty() ? Stage::kNew : Stage::kBound;
}

Json slim(const Json& pod) {
  Json containers = Json::array();
  for (const Json& container : pod.at("spec").at("containers"))
    containers.push_back({{"name", container.at("name")}, {"image", container.value("image", "")}});
  return {{"metadata", {{"uid", pod.at("metadata").at("uid")}}},
          {"spec", {{"containers", containers}}}};
}

Stage stage_after(Act act) {
  switch (act) {
    case Act::kBind:
      return Stage::kBound;
    case Act::kRun:
      return Stage::kRunning;
    case Act::kRefuse:
    case Act::kHold:
      return Stage::kStuck;
    default:
      return Stage::kEnded;
  }
}

}  // namespace

Kubelet::Kubelet(kube::Client& client, KubeletOptions options)
    : client_(client), options_(std::move(options)) {}

Counts Kubelet::counts() const { return {bindings_, statuses_, removals_, failures_}; }

bool Kubelet::is_ours(const std::string& node) const {
  if (!options_.schedules) return !node.empty();
  return node.empty() || node.starts_with("scripted-node-");
}

// A script that can't be read must be seen: the pod is not scheduled, and says why.
Life Kubelet::read_life(const Json& pod) const {
  try {
    return life_of(pod, options_.rules, options_.defaults);
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    Life life;
    life.unschedulable = error.what();
    return life;
  }
}

void Kubelet::changed(const Json& object) {
  const kube::ObjectMeta meta = kube::meta_of(object);
  const std::string key = kube::key_of(meta);
  const std::string node = text_at(object, "spec", "nodeName");
  if (!is_ours(node)) return;
  const std::lock_guard lock(mutex_);
  const auto known = pods_.find(key);
  const bool is_new = known == pods_.end() || known->second.uid != meta.uid;
  if (is_new)
    pods_[key] = {.slim = slim(object),
                  .uid = meta.uid,
                  .name_space = meta.name_space,
                  .name = meta.name,
                  .life = read_life(object),
                  .stage = stage_of(object),
                  .bound = false,
                  .since = Clock::now(),
                  .terminating = {}};
  Pod& pod = pods_[key];
  pod.bound = pod.bound || !node.empty();
  const bool told_to_stop = meta.terminating && !pod.terminating;
  if (told_to_stop) pod.terminating = Clock::now();
  if (is_new || told_to_stop) queue_.add(key);
}

void Kubelet::deleted(const Json& object) {
  const kube::ObjectMeta meta = kube::meta_of(object);
  const std::lock_guard lock(mutex_);
  const auto known = pods_.find(kube::key_of(meta));
  if (known != pods_.end() && known->second.uid == meta.uid) pods_.erase(known);
}

std::optional<Kubelet::Pod> Kubelet::find(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto known = pods_.find(key);
  if (known == pods_.end()) return std::nullopt;
  return known->second;
}

void Kubelet::enter(const std::string& key, const std::string& uid, Stage stage) {
  const std::lock_guard lock(mutex_);
  const auto known = pods_.find(key);
  if (known == pods_.end() || known->second.uid != uid) return;
  known->second.stage = stage;
  known->second.since = Clock::now();
  known->second.bound = known->second.bound || stage == Stage::kBound;
}

void Kubelet::play(const std::string& key) {
  while (const auto pod = find(key)) {
    const auto passed = [](Clock::time_point since) {
      return std::chrono::duration_cast<milliseconds>(Clock::now() - since);
    };
    Moment moment{pod->stage, pod->bound, passed(pod->since), {}};
    if (pod->terminating) moment.terminating = passed(*pod->terminating);
    const Step step = next_step(pod->life, moment);
    if (step.act == Act::kNothing) return;
    if (step.act == Act::kWait) return queue_.add_after(key, step.delay);
    if (!perform(*pod, step.act)) return queue_.add_rate_limited(key);
    queue_.forget(key);
    if (step.act == Act::kRemove) return;
    enter(key, pod->uid, stage_after(step.act));
  }
}

// False: try again. That it is gone, or another's by now, is no failure.
bool Kubelet::perform(const Pod& pod, Act act) {
  std::optional<kube::ApiError> error;
  const auto keep = [&](const auto& answer) {
    if (!answer) error = answer.error();
  };
  if (act == Act::kBind) {
    const std::string node = node_name(std::hash<std::string>()(pod.name) % kNodes);
    keep(client_.create(kBindings, pod.name_space,
                        binding(pod.name_space, pod.name, pod.uid, node)));
    ++bindings_;
  } else if (act == Act::kRemove) {
    keep(
        client_.remove(kube::kPods, pod.name_space, pod.name,
                       {.uid = pod.uid, .resource_version = "", .grace = std::chrono::seconds(0)}));
    ++removals_;
  } else {
    keep(client_.patch(kube::kPods, pod.name_space, pod.name, "status",
                       status_patch(pod.slim, pod.life, act, now())));
    ++statuses_;
  }
  if (!error || error->code == 404 || error->code == 409) return true;
  ++failures_;
  fmt::print(stderr, "{}/{}: {}\n", pod.name_space, pod.name, kube::to_text(*error));
  return false;
}

void Kubelet::write(std::stop_token stop) {
  while (const auto item = queue_.get(stop)) {
    play(item->key);
    queue_.done(item->key);
  }
}

// Pods of a node that is not there would be collected after a minute, those of one that is silent
// evicted.
void Kubelet::make_nodes() {
  for (int i = 0; i < kNodes; ++i) {
    const Json wanted = node(node_name(i), now());
    const auto made = client_.create(kNodesResource, "", wanted);
    if (!made && made.error().code != 409)
      throw Error(ExitCode::kInternal, "[nodes] " + kube::to_text(made.error()));
    if (made) continue;
    client_.patch(kNodesResource, "", node_name(i), "", {{"spec", wanted.at("spec")}});
    client_.patch(kNodesResource, "", node_name(i), "status", {{"status", wanted.at("status")}});
  }
}

void Kubelet::keep_nodes(std::stop_token stop) {
  while (!stop.stop_requested()) {
    for (int i = 0; i < kNodes; ++i) {
      const Json lease = node_lease(node_name(i), now());
      const auto renewed = client_.patch(kube::kLeases, "kube-node-lease", node_name(i), "", lease);
      if (!renewed && renewed.error().code == 404)
        client_.create(kube::kLeases, "kube-node-lease", lease);
    }
    controller::interruptible_sleep(kHeartbeat, stop);
  }
}

void Kubelet::run(std::stop_token stop) {
  if (options_.schedules) make_nodes();
  std::vector<std::jthread> threads;
  const auto start = [&](auto work) { threads.emplace_back([work, stop] { work(stop); }); };
  if (options_.schedules) start([this](std::stop_token token) { keep_nodes(token); });
  for (int i = 0; i < options_.writers; ++i) start([this](std::stop_token token) { write(token); });
  std::vector<std::string> scopes = options_.namespaces;
  if (scopes.empty()) scopes.emplace_back();
  controller::ObjectSink& sink = *this;
  std::vector<std::unique_ptr<controller::Informer>> informers;
  for (const std::string& scope : scopes) {
    controller::InformerOptions options;
    options.query.name_space = scope;
    options.query.label_selector = options_.label_selector;
    options.on_error = [](const kube::ApiError& error) {
      fmt::print(stderr, "watch: {}\n", kube::to_text(error));
    };
    informers.push_back(
        std::make_unique<controller::Informer>(client_, kube::kPods, std::move(options), sink));
    start([informer = informers.back().get()](std::stop_token token) { informer->run(token); });
  }
  for (std::jthread& thread : threads) thread.join();
}

}  // namespace coxswain::scripted
