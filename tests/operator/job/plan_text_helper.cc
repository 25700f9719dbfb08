#include "tests/operator/job/plan_text_helper.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "operator/job/job_reader.h"
#include "operator/job/status.h"
#include "operator/job/words.h"
#include "tests/support/test_flags.h"

namespace coxswain::test {

namespace {

std::string job_line(const job::TrainingJob& job) {
  const job::Status& status = job.status;
  std::string text = fmt::format(
      "job replicas={} servers={} launcher={} backoffLimit={} suspend={} attempt={} workers={} "
      "phase={}",
      job.spec.worker.replicas, job.spec.server ? job.spec.server->replicas : 0,
      job::launcher(job.spec) == job::Launcher::kMpi ? "MPI" : "Env",
      job.spec.run_policy.backoff_limit, job.spec.run_policy.suspend, status.attempt,
      status.workers, status.phase == job::Phase::kNone ? "none" : job::to_text(status.phase));
  if (!status.succeeded_ranks.empty()) text += " succeeded=" + status.succeeded_ranks;
  return text + "\n";
}

// "Running  True AllReady: every pod is Ready"
std::string condition_line(const job::Condition& condition) {
  const std::string colon = condition.message.empty() ? "" : ": ";
  return fmt::format("  {} {} {}{}{}\n", condition.type, condition.status ? "True" : "False",
                     condition.reason, colon, condition.message);
}

std::string relative(const std::optional<job::Time>& time) {
  return time ? fmt::format("+{}s", (*time - kStart).count()) : "none";
}

std::string status_changes(const job::Status& before, const job::Status& after) {
  std::string text;
  for (const job::Condition& condition : after.conditions) {
    const job::Condition* old = job::find_condition(before, condition.type);
    const bool same = old && old->status == condition.status && old->reason == condition.reason &&
                      old->message == condition.message;
    if (!same) text += condition_line(condition);
  }
  const auto changed = [&](const char* name, const auto& old, const auto& fresh) {
    if (old != fresh) text += fmt::format("  {} {}\n", name, fresh);
  };
  changed("workers", before.workers, after.workers);
  changed("hostPort", before.host_port, after.host_port);
  changed("image", before.image, after.image);
  changed("keysSecret", before.keys_secret, after.keys_secret);
  changed("backoffStep", before.backoff_step, after.backoff_step);
  changed("avoidNodes", fmt::format("{}", fmt::join(before.avoid_nodes, " ")),
          fmt::format("{}", fmt::join(after.avoid_nodes, " ")));
  const auto awaited = [](const job::Status& status) {
    return std::ranges::count(status.replacements, true, &job::Replacement::awaited);
  };
  changed("awaited", awaited(before), awaited(after));
  changed("succeededRanks", before.succeeded_ranks, after.succeeded_ranks);
  changed("podGroup", word(before.pod_group), word(after.pod_group));
  changed("nextRetryTime", relative(before.next_retry_time), relative(after.next_retry_time));
  changed("startTime", relative(before.start_time), relative(after.start_time));
  changed("completionTime", relative(before.completion_time), relative(after.completion_time));
  return text;
}

std::string situation_text(const job::TrainingJob& job, const job::Observed& observed,
                           const job::Plan& plan) {
  std::string text = job_line(job);
  text += fmt::format("at {}\n", relative(observed.now));
  text += job::to_text(observed) + "----\n" + job::to_text(plan);
  const std::string changes = status_changes(job.status, plan.status);
  if (!changes.empty()) text += "status\n" + changes;
  for (const job::Event& event : plan.events)
    text += fmt::format("event {} {}: {}\n", event.warning ? "Warning" : "Normal", event.reason,
                        event.message);
  return text;
}

}  // namespace

void expect_golden_plans(const std::vector<Situation>& situations) {
  for (const Situation& situation : situations) {
    auto seen = observed(situation.job);
    situation.see(seen);
    const job::Plan plan = job::plan(situation.job, seen);
    EXPECT_FALSE(plan.decides && !plan.actions.empty()) << situation.name;
    expect_golden("plans/" + situation.name + ".txt", situation_text(situation.job, seen, plan));
  }
}

}  // namespace coxswain::test
