#include <fmt/format.h>

#include "operator/job/plan.h"
#include "operator/job/status.h"
#include "operator/job/words.h"
#include "trainer/contract/config/overload.h"

namespace coxswain::job {

namespace {

std::string as_text(const Restarts& restarts) {
  std::string text;
  const auto add = [&](const char* cause, int count) {
    if (count > 0) text += fmt::format(" restarts.{}={}", cause, count);
  };
  add("failure", restarts.failure);
  add("preemption", restarts.preemption);
  add("node", restarts.node);
  add("startup", restarts.startup);
  add("resize", restarts.resize);
  return text;
}

std::string as_text(const Failure& failure) {
  std::string text = " cause=" + short_name(failure.role, failure.index);
  if (failure.exit_code) text += fmt::format(" exit={}", *failure.exit_code);
  return text;
}

std::string as_text(const std::vector<Replacement>& replacements) {
  std::string text;
  for (const Replacement& each : replacements)
    if (each.awaited)
      text += fmt::format(" replace={} incarnation={}", short_name(each.role, each.index),
                          each.incarnation);
  return text;
}

std::string decision(const Status& status) {
  std::string text = fmt::format("record attempt={} phase={}", status.attempt,
                                 status.phase == Phase::kNone ? "none" : to_text(status.phase));
  text += as_text(status.restarts);
  const std::string replaced = as_text(status.replacements);
  text += replaced;
  const bool went_wrong =
      status.phase == Phase::kRestarting || status.phase == Phase::kFailed || !replaced.empty();
  if (went_wrong && status.last_failure) text += as_text(*status.last_failure);
  return text;
}

std::string to_line(const Worker& worker) {
  std::string text = fmt::format("{:<20} {:<9}", to_text(worker.id), word(worker.phase));
  if (worker.scheduled) text += " scheduled";
  if (worker.ready) text += " ready";
  if (worker.lingers) text += " lingers";
  if (worker.exit_code) text += fmt::format(" exit={}", *worker.exit_code);
  if (!worker.reason.empty()) text += " reason=" + worker.reason;
  if (!worker.disruption.empty()) text += " disruption=" + worker.disruption;
  if (!worker.node.empty()) text += " node=" + worker.node;
  if (worker.termination_message) text += " said-by-us";
  if (worker.deletion_time) text += " terminating";
  return text;
}

}  // namespace

std::string to_text(const Action& action) {
  return std::visit(
      contract::Overload{
          [](const EnsureObject& ensure) { return fmt::format("ensure {}", word(ensure.kind)); },
          [](const CreateWorker& create) { return "create " + to_text(create.id); },
          [](const DeleteWorker& remove) {
            return fmt::format(
                "delete {} {}", to_text(remove.id),
                remove.force ? "force" : fmt::format("grace={}s", remove.grace.count()));
          },
          [](const DeletePodGroup& remove) {
            return fmt::format("delete pod group of {}", word(remove.scheduler));
          },
          [](const DeleteJob&) { return std::string("delete job"); },
      },
      action);
}

std::string to_text(const Observed& observed) {
  std::string text;
  for (const Worker& worker : observed.workers) text += to_line(worker) + "\n";
  for (const Worker& worker : observed.gone) text += to_line(worker) + " gone\n";
  if (observed.rejection)
    text +=
        fmt::format("rejected {}: {}\n", observed.rejection->reason, observed.rejection->message);
  return text;
}

std::string to_text(const Plan& plan) {
  std::string text;
  if (plan.decides) text += decision(plan.status) + "\n";
  for (const Action& action : plan.actions) text += to_text(action) + "\n";
  if (plan.requeue_after) text += fmt::format("come back in {} s\n", plan.requeue_after->count());
  return text;
}

}  // namespace coxswain::job
