#include "operator/run_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "trainer/contract/exit_code.h"
#include "trainer/contract/worker/finished_event.h"

namespace coxswain {

namespace {

constexpr std::array<std::string_view, 3> kOrdinary = {"Started", "Running", "Succeeded"};

bool is_ordinary(const job::Event& event) {
  return std::find(kOrdinary.begin(), kOrdinary.end(), event.reason) != kOrdinary.end();
}

std::string to_json_line(const job::Event& event, const job::Status& status) {
  const nlohmann::ordered_json line = {{"event", "state"},
                                       {"reason", event.reason},
                                       {"message", event.message},
                                       {"warning", event.warning},
                                       {"phase", job::to_text(status.phase)},
                                       {"attempt", status.attempt}};
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

const char* word(RunResult result) {
  switch (result) {
    case RunResult::kSucceeded:
      return "Succeeded";
    case RunResult::kSaved:
      return "Saved";
    case RunResult::kFailed:
      break;
  }
  return "Failed";
}

int total(const job::Restarts& restarts) {
  return restarts.failure + restarts.preemption + restarts.node + restarts.startup +
         restarts.resize;
}

}  // namespace

std::string render_events(const std::vector<job::Event>& events, const job::Status& status,
                          bool as_json) {
  std::string text;
  for (const job::Event& event : events) {
    if (as_json) {
      text += to_json_line(event, status);
    } else if (!is_ordinary(event)) {
      const bool failed = status.phase == job::Phase::kFailed;
      text += fmt::format("coxswain: {}{}: {}\n", failed ? "Failed: " : "", event.reason,
                          event.message);
    }
  }
  return text;
}

std::string render_finished(RunResult result, const job::Status& status,
                            const std::optional<job::Worker>& last_end) {
  auto progress = status.progress;
  auto checkpoint = status.checkpoint;
  if (last_end && last_end->termination_message) {
    const auto& said = *last_end->termination_message;
    if (said.progress) progress = said.progress;
    if (said.checkpoint) checkpoint = said.checkpoint;
  }
  contract::FinishedEvent event;
  event.result = word(result);
  event.restarts = total(status.restarts);
  if (progress) {
    event.accuracy = progress->test_accuracy;
    event.loss = progress->test_loss;
    event.epochs = progress->epoch;
    event.steps = progress->step;
    event.samples_per_second = progress->samples_per_second;
    event.seconds = progress->seconds;
  }
  if (checkpoint && !checkpoint->path.empty()) {
    event.checkpoint = "checkpoints/" + std::filesystem::path(checkpoint->path).filename().string();
  }
  return contract::to_json(event) + "\n";
}

int exit_code(RunResult result, const job::Status& status) {
  if (result == RunResult::kSucceeded) return static_cast<int>(ExitCode::kDone);
  if (result == RunResult::kSaved) return static_cast<int>(ExitCode::kSaved);
  const int internal = static_cast<int>(ExitCode::kInternal);
  if (!status.last_failure) return internal;
  const int code = status.last_failure->exit_code.value_or(0);
  return code != 0 ? code : internal;
}

}  // namespace coxswain
