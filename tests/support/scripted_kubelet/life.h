#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "operator/kube/object.h"

// PURE: how a pod's life is scripted, and what comes next in it.
namespace coxswain::scripted {

using kube::Json;
using std::chrono::milliseconds;

inline constexpr const char* kLifeAnnotation = "coxswain.test/life";

// Value. One pod's script. The default: Running and Ready at once, until it is deleted.
struct Life {
  std::string unschedulable{};  // never bound; this is the scheduler's message
  std::string waiting{};        // bound, but its container waits with this reason: ImagePullBackOff
  milliseconds ready_after{0};
  std::string ip{};  // empty: none, so that nobody asks it for progress

  std::optional<milliseconds> exit_after{};  // after Ready; none: it runs until it is deleted
  int exit_code = 0;
  std::string reason{};      // of the container's end; empty: Completed or Error
  std::string message{};     // its termination message
  std::string phase{};       // empty: Succeeded or Failed by the exit code
  std::string disruption{};  // reason of the condition DisruptionTarget
  bool no_container_status = false;
  bool vanish = false;  // its end is that the pod is gone

  milliseconds stop_after{0};      // after it was deleted
  std::optional<int> stop_exit{};  // told before the pod goes; none: it just goes
  bool ignore_term = false;        // only force takes it away
  bool operator==(const Life&) const = default;
};

// Value. A life for the pods that it fits.
struct Rule {
  std::optional<int> attempt;  // none: any
  std::optional<int> index;
  std::string role;  // worker, server, launcher; empty: any
  Life life;
};

// A JSON list of rules, or one rule: {"attempt":0,"index":1,"ready_after_ms":100,
// "exit_after_ms":500,"exit":137,"reason":"OOMKilled"}. An end without exit_after_ms comes at once.
// Throws Error that names the key.
std::vector<Rule> parse_rules(const std::string& text, const Life& defaults);

// Of the pod's annotation, else of `others`; the first rule that fits its labels, else `defaults`.
// Throws as parse_rules does.
Life life_of(const Json& pod, const std::vector<Rule>& others, const Life& defaults);

enum class Stage { kNew, kBound, kRunning, kEnded, kStuck };

// Value. Where a pod is.
struct Moment {
  Stage stage = Stage::kNew;
  bool bound = false;
  milliseconds in_stage{0};
  std::optional<milliseconds> terminating;  // since it was deleted
};

enum class Act {
  kNothing,  // until something happens
  kWait,     // for `Step::delay`
  kRefuse,   // say that it can't be scheduled
  kBind,
  kHold,  // say why its container waits
  kRun,
  kEnd,   // say how it ended
  kStop,  // say how it ended because it was told to
  kRemove,
};

struct Step {
  Act act = Act::kNothing;
  milliseconds delay{0};
  bool operator==(const Step&) const = default;
};

Step next_step(const Life& life, const Moment& moment);

}  // namespace coxswain::scripted
