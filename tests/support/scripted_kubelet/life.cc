#include "tests/support/scripted_kubelet/life.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "operator/kube/json_reader.h"
#include "trainer/contract/error.h"

namespace coxswain::scripted {

namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ExitCode::kBadInput, fmt::format("[life] {}", what));
}

int integer(const std::string& key, const Json& value) {
  if (!value.is_number_integer()) refuse(fmt::format("{}: not an integer", key));
  return value.get<int>();
}

std::string text(const std::string& key, const Json& value) {
  if (!value.is_string()) refuse(fmt::format("{}: not a string", key));
  return value.get<std::string>();
}

bool truth(const std::string& key, const Json& value) {
  if (!value.is_boolean()) refuse(fmt::format("{}: not true or false", key));
  return value.get<bool>();
}

bool read_text(const std::string& key, const Json& value, Rule& rule) {
  Life& life = rule.life;
  const std::pair<const char*, std::string*> fields[] = {
      {"role", &rule.role},       {"unschedulable", &life.unschedulable},
      {"waiting", &life.waiting}, {"ip", &life.ip},
      {"reason", &life.reason},   {"message", &life.message},
      {"phase", &life.phase},     {"disruption", &life.disruption}};
  for (const auto& [name, field] : fields) {
    if (key != name) continue;
    *field = text(key, value);
    return true;
  }
  return false;
}

bool read_truth(const std::string& key, const Json& value, Life& life) {
  const std::pair<const char*, bool*> fields[] = {
      {"no_container_status", &life.no_container_status},
      {"vanish", &life.vanish},
      {"ignore_term", &life.ignore_term}};
  for (const auto& [name, field] : fields) {
    if (key != name) continue;
    *field = truth(key, value);
    return true;
  }
  return false;
}

bool read_number(const std::string& key, const Json& value, Rule& rule) {
  Life& life = rule.life;
  if (key == "attempt")
    rule.attempt = integer(key, value);
  else if (key == "index")
    rule.index = integer(key, value);
  else if (key == "ready_after_ms")
    life.ready_after = milliseconds(integer(key, value));
  else if (key == "exit_after_ms")
    life.exit_after = milliseconds(integer(key, value));
  else if (key == "exit")
    life.exit_code = integer(key, value);
  else if (key == "stop_ms")
    life.stop_after = milliseconds(integer(key, value));
  else if (key == "stop_exit")
    life.stop_exit = integer(key, value);
  else
    return false;
  return true;
}

Rule read_rule(const Json& json, const Life& defaults) {
  if (!json.is_object()) refuse("a rule is not an object");
  Rule rule{.attempt = {}, .index = {}, .role = "", .life = defaults};
  for (const auto& [key, value] : json.items()) {
    if (!read_text(key, value, rule) && !read_truth(key, value, rule.life) &&
        !read_number(key, value, rule))
      refuse(fmt::format("unknown key {}", key));
  }
  Life& life = rule.life;
  if (!life.phase.empty() && life.phase != "Failed" && life.phase != "Succeeded")
    refuse("phase: write Failed or Succeeded");
  const bool ends = json.contains("exit") || !life.phase.empty() || !life.disruption.empty() ||
                    life.vanish || life.no_container_status;
  if (ends && !life.exit_after) life.exit_after = milliseconds(0);
  return rule;
}

std::string text_of(const Json& pod, const char* map, const char* key) {
  const auto metadata = pod.find("metadata");
  if (metadata == pod.end() || !metadata->is_object()) return "";
  const auto entries = metadata->find(map);
  if (entries == metadata->end() || !entries->is_object()) return "";
  const auto found = entries->find(key);
  return found != entries->end() && found->is_string() ? found->get<std::string>() : "";
}

std::optional<int> number_of(const std::string& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool fits(const Rule& rule, const Json& pod) {
  const auto label = [&](const char* key) { return text_of(pod, "labels", key); };
  // Ours, and other operators' whose pods carry the second.
  std::string role = label("training.kubeflow.org/replica-type");
  if (role.empty()) role = label("training.kubeflow.org/job-role");
  if (rule.attempt && number_of(label("coxswain.dev/attempt")) != rule.attempt) return false;
  if (rule.index && number_of(label("training.kubeflow.org/replica-index")) != rule.index)
    return false;
  return rule.role.empty() || rule.role == role;
}

Step after(milliseconds passed, milliseconds due, Act act) {
  return passed >= due ? Step{act} : Step{Act::kWait, due - passed};
}

}  // namespace

std::vector<Rule> parse_rules(const std::string& text, const Life& defaults) {
  const auto json = kube::parse_object(text.starts_with('[') ? "{\"rules\":" + text + "}" : text);
  if (!json) refuse("no JSON: " + text.substr(0, 80));
  std::vector<Rule> rules;
  if (!json->contains("rules")) return {read_rule(*json, defaults)};
  for (const Json& rule : json->at("rules")) rules.push_back(read_rule(rule, defaults));
  return rules;
}

Life life_of(const Json& pod, const std::vector<Rule>& others, const Life& defaults) {
  const std::string script = text_of(pod, "annotations", kLifeAnnotation);
  const std::vector<Rule> rules = script.empty() ? others : parse_rules(script, defaults);
  const auto rule = std::ranges::find_if(rules, [&](const Rule& each) { return fits(each, pod); });
  return rule == rules.end() ? defaults : rule->life;
}

// What a kubelet takes between telling a pod's end and letting it go, at least.
constexpr milliseconds kCleanUp{300};

Step next_step(const Life& life, const Moment& moment) {
  // The API server itself takes away what was never bound, and what has ended.
  if (moment.terminating && moment.bound && !life.ignore_term) {
    if (moment.stage == Stage::kEnded) return after(moment.in_stage, kCleanUp, Act::kRemove);
    return after(*moment.terminating, life.stop_after, life.stop_exit ? Act::kStop : Act::kRemove);
  }
  switch (moment.stage) {
    case Stage::kNew:
      return {life.unschedulable.empty() ? Act::kBind : Act::kRefuse};
    case Stage::kBound:
      if (!life.waiting.empty()) return {Act::kHold};
      return after(moment.in_stage, life.ready_after, Act::kRun);
    case Stage::kRunning:
      if (!life.exit_after) return {};
      return after(moment.in_stage, *life.exit_after, life.vanish ? Act::kRemove : Act::kEnd);
    case Stage::kEnded:
    case Stage::kStuck:
      break;
  }
  return {};
}

}  // namespace coxswain::scripted
