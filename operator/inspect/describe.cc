#include "operator/inspect/describe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include "operator/inspect/words.h"
#include "operator/job/roles.h"
#include "trainer/contract/printable.h"
#include "trainer/contract/rfc3339.h"

namespace coxswain::inspect {

namespace {

using job::Status;
using job::TrainingJob;

constexpr std::size_t kMostMessage = 600;  // characters of others' words
constexpr std::size_t kMostPods = 16;      // told of one by one

std::string said(const std::string& text) { return printable(text, kMostMessage); }

double seconds_between(job::Time from, job::Time to) {
  return static_cast<double>((to - from).count());
}

std::string ago(job::Time time, job::Time now) {
  return duration(std::max(0.0, seconds_between(time, now))) + " ago";
}

// What a new attempt begins with, and so what ended the one before.
bool begins_attempt(const PastEvent& event) {
  constexpr std::array<std::string_view, 6> kReasons{"Started",  "Resumed",  "Restarting",
                                                     "Resizing", "Degraded", "StatusLost"};
  return std::ranges::count(kReasons, event.reason) > 0;
}

std::string headline(const Sighting& seen) {
  const TrainingJob& job = seen.job;
  const Status& status = job.status;
  std::string text = fmt::format("{} ({}): ", job.metadata.name, seen.place);
  const std::string phase = job::to_text(status.phase);
  text += phase.empty() ? "not taken up by an operator yet" : phase;
  if (status.workers > 0)
    text +=
        fmt::format(", attempt {} with {} of {}", status.attempt, counted(status.workers, "worker"),
                    counted(job::slots_per_worker(job.spec), "rank"));
  if (status.completion_time) return text + ", " + ago(*status.completion_time, seen.now) + "\n";
  if (status.attempt_start_time) text += ", begun " + ago(*status.attempt_start_time, seen.now);
  return text + "\n";
}

std::string asked(const TrainingJob& job) {
  const job::Spec& spec = job.spec;
  std::string text = "Asked for: " + counted(spec.worker.replicas, "worker");
  if (spec.server) text += " and " + counted(spec.server->replicas, "server");
  text += fmt::format(", {}, launcher {}", word(spec.strategy), word(launcher(spec)));
  if (!spec.training) return text + ", a program of its own\n";
  const auto add = [&](const job::Json& object, const char* key) {
    const auto found = object.is_object() ? object.find(key) : object.end();
    if (object.is_object() && found != object.end() && !found->is_structured())
      text += fmt::format(", {} {}", key,
                          said(found->is_string() ? found->get<std::string>() : found->dump()));
  };
  add(*spec.training, "model");
  if (spec.training->contains("data")) add(spec.training->at("data"), "format");
  add(*spec.training, "epochs");
  add(*spec.training, "steps");
  return text + "\n";
}

std::string progress(const Sighting& seen) {
  const auto& progress = seen.job.status.progress;
  if (!progress) return "";
  std::string text = "Progress: ";
  if (progress->epochs > 0)
    text += fmt::format("epoch {} of {}, ", progress->epoch, progress->epochs);
  text += fmt::format("step {} of {}", grouped(progress->step), grouped(progress->steps));
  if (progress->loss) text += fmt::format(", loss {:.4f}", *progress->loss);
  if (progress->accuracy) text += fmt::format(", accuracy {:.2f} %", *progress->accuracy * 100);
  if (progress->samples_per_second > 0)
    text += fmt::format(", {} images/s",
                        grouped(static_cast<std::int64_t>(progress->samples_per_second)));
  if (progress->scaling_efficiency && progress->world_size > 1)
    text += fmt::format(", ranks wait for each other {:.0f} % of the time",
                        (1 - *progress->scaling_efficiency) * 100);
  if (progress->seconds_left && !job::is_terminal(seen.job.status))
    text += fmt::format(", about {} left", duration(*progress->seconds_left));
  const auto time = parse_rfc3339(progress->time);
  if (time) text += fmt::format(" (told {})", ago(*time, seen.now));
  return text + "\n";
}

std::string checkpoint(const Sighting& seen) {
  const auto& newest = seen.job.status.checkpoint;
  if (!newest || newest->path.empty())
    return seen.job.spec.training ? "Checkpoint: none is known yet: an attempt that ends now "
                                    "begins from the start\n"
                                  : "";
  std::string text =
      fmt::format("Checkpoint: {}, step {}", said(newest->path), grouped(newest->step));
  if (newest->bytes > 0) text += ", " + bytes_text(newest->bytes);
  const auto time = parse_rfc3339(newest->time);
  if (time) text += ", " + ago(*time, seen.now);
  return text + "\n";
}

std::string restarts(const TrainingJob& job) {
  const job::Restarts& by = job.status.restarts;
  std::vector<std::string> parts;
  const auto add = [&](int count, const std::string& cause) {
    if (count > 0) parts.push_back(fmt::format("{} by {}", count, cause));
  };
  add(by.failure, fmt::format("failure (backoffLimit {})", job.spec.run_policy.backoff_limit));
  add(by.preemption, "preemption");
  add(by.node, "a lost node");
  add(by.startup, "a start that came too late");
  add(by.resize, "another size");
  if (parts.empty()) return "";
  return fmt::format("Restarts: {}\n", fmt::join(parts, ", "));
}

// The first cause of the newest end, in a sentence.
std::string last_failure(const Sighting& seen) {
  const auto& failure = seen.job.status.last_failure;
  if (!failure) return "";
  std::string who = job::short_name(failure->role, failure->index);
  if (failure->rank) who = fmt::format("rank {} in {}", *failure->rank, who);
  if (!failure->node.empty()) who += " on " + said(failure->node);
  std::string text = fmt::format("First cause of the newest end (attempt {}, {}): {}",
                                 failure->attempt, ago(failure->time, seen.now), who);
  if (failure->exit_code) text += fmt::format(" ended with {}", *failure->exit_code);
  if (!failure->reason.empty())
    text += failure->exit_code ? fmt::format(" ({})", said(failure->reason))
                               : ": " + said(failure->reason);
  if (!failure->phase.empty()) text += " in " + said(failure->phase);
  if (!failure->message.empty()) text += ": " + said(failure->message);
  return text + "\n";
}

// What keeps the job from running, in the words of its conditions.
std::string holdups(const Sighting& seen) {
  const Status& status = seen.job.status;
  std::string text;
  const auto tell = [&](std::string_view type, bool when, const char* words) {
    const job::Condition* condition = find_condition(status, type);
    if (!condition || condition->status != when) return;
    text += words + said(condition->reason);
    if (!condition->message.empty()) text += ": " + said(condition->message);
    text += fmt::format(" (since {})\n", ago(condition->last_transition_time, seen.now));
  };
  tell(job::condition::kFailed, true, "Failed: ");
  tell(job::condition::kInvalid, true, "It can't start as it is written: ");
  if (job::is_terminal(status)) return text;
  tell(job::condition::kResourcesRejected, true, "The API server refuses what it needs: ");
  tell(job::condition::kSuspended, true, "Waits to be resumed: ");
  tell(job::condition::kDegraded, true, "Runs with fewer workers than asked for: ");
  if (status.workers > 0) tell(job::condition::kReady, false, "Not ready: ");
  if (status.next_retry_time && *status.next_retry_time > seen.now)
    text += fmt::format("The next gang is made in {}\n",
                        duration(seconds_between(seen.now, *status.next_retry_time)));
  return text;
}

// Of one attempt, in its order.
struct Attempt {
  std::vector<const PastEvent*> begins;  // more than one: its cause was known later
  std::vector<const PastEvent*> within;
};

std::string line(job::Time time, const std::string& text) {
  return fmt::format("  {}  {}\n", clock_text(time), text);
}

std::string event_line(const PastEvent& event, job::Time began) {
  if (event.reason == "Running")
    return line(event.time, fmt::format("every worker was Ready, {} after the attempt began",
                                        duration(seconds_between(began, event.time))));
  if (event.reason == "Replacing")
    return line(event.time, "one pod is made anew, the others go on: " + said(event.message));
  return line(event.time, fmt::format("{}: {}", event.reason, said(event.message)));
}

// `next`: the attempt after it, if there was one, whose beginning says why this one ended.
std::string attempt_text(int number, const Attempt& attempt, const Attempt* next) {
  std::string text = fmt::format("Attempt {}\n", number);
  job::Time began{};
  if (!attempt.begins.empty()) {
    const PastEvent& first = *attempt.begins.front();
    began = first.time;
    const bool says = first.reason == "Started" || first.reason == "Resumed";
    text += line(began, says ? "began: " + said(first.message) : "began");
  } else if (!attempt.within.empty()) {
    began = attempt.within.front()->time;
  }
  for (const PastEvent* event : attempt.within) text += event_line(*event, began);
  if (!next || next->begins.empty()) return text;
  const PastEvent& cause = *next->begins.back();
  const double lasted = seconds_between(began, next->begins.front()->time);
  if (cause.reason == "Resumed") return text;  // the suspension is an event of its own
  text += line(next->begins.front()->time,
               fmt::format("ended after {} ({}), first cause: {}", duration(std::max(0.0, lasted)),
                           cause.reason, said(cause.message)));
  return text;
}

std::string story(const Sighting& seen) {
  std::map<int, Attempt> attempts;
  std::string earlier;
  for (const PastEvent& event : seen.events) {
    if (!event.attempt) {
      earlier += line(event.time, fmt::format("{}: {}", event.reason, said(event.message)));
      continue;
    }
    Attempt& attempt = attempts[*event.attempt];
    (begins_attempt(event) ? attempt.begins : attempt.within).push_back(&event);
  }
  std::string text;
  if (!seen.events_unread.empty())
    return "What happened can't be told: " + said(seen.events_unread) + "\n";
  if (attempts.empty() && earlier.empty())
    return "What happened is not remembered: no events are left (a cluster keeps them for an "
           "hour)\n";
  if (!earlier.empty()) text += "Earlier\n" + earlier;
  for (auto at = attempts.begin(); at != attempts.end(); ++at) {
    const auto next = attempts.find(at->first + 1);
    text += attempt_text(at->first, at->second, next == attempts.end() ? nullptr : &next->second);
  }
  return text;
}

bool has_ended(const job::Worker& worker) {
  return worker.phase == job::WorkerPhase::kSucceeded || worker.phase == job::WorkerPhase::kFailed;
}

std::string worker_line(const job::Worker& worker) {
  std::string text =
      fmt::format("  {:<12} attempt {}  {:<9} {}", job::short_name(worker.id.role, worker.id.index),
                  worker.id.attempt, word(worker.phase),
                  worker.ready           ? "Ready"
                  : worker.deletion_time ? "leaving"
                                         : "");
  if (!worker.node.empty()) text += "  on " + said(worker.node);
  if (worker.exit_code) text += fmt::format("  exit {}", *worker.exit_code);
  if (!worker.reason.empty() && worker.reason != "Completed") text += "  " + said(worker.reason);
  if (!worker.message.empty()) text += ": " + said(worker.message);
  while (text.ends_with(' ')) text.pop_back();
  return text + "\n";
}

// Those that are not Ready first.
std::string pods(const Sighting& seen) {
  std::vector<job::Worker> workers = seen.workers;
  std::erase_if(workers, [&](const job::Worker& worker) {
    return worker.id.attempt != seen.job.status.attempt && has_ended(worker);
  });
  if (workers.empty()) return "";
  std::ranges::stable_sort(workers, [](const job::Worker& a, const job::Worker& b) {
    return std::pair(a.ready, a.id) < std::pair(b.ready, b.id);
  });
  std::string text = "Workers\n";
  for (std::size_t i = 0; i < std::min(workers.size(), kMostPods); ++i)
    text += worker_line(workers[i]);
  if (workers.size() <= kMostPods) return text;
  const auto more = workers.begin() + static_cast<std::ptrdiff_t>(kMostPods);
  const auto ready = std::count_if(more, workers.end(), [](const auto& w) { return w.ready; });
  return text + fmt::format("  and {} more, {} of them Ready\n", workers.end() - more, ready);
}

}  // namespace

std::string describe(const Sighting& seen) {
  std::string text = headline(seen) + asked(seen.job) + progress(seen);
  if (!job::is_terminal(seen.job.status) || seen.job.status.checkpoint) text += checkpoint(seen);
  text += restarts(seen.job) + last_failure(seen) + holdups(seen);
  if (const auto& avoided = seen.job.status.avoid_nodes; !avoided.empty())
    text += fmt::format("Avoids {}, whose device failed\n",
                        said(fmt::format("{}", fmt::join(avoided, ", "))));
  return text + "\n" + story(seen) + pods(seen);
}

}  // namespace coxswain::inspect
