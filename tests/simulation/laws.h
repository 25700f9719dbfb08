#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "operator/job/observed.h"
#include "operator/job/training_job.h"
#include "tests/simulation/world.h"

namespace coxswain::test {

// What must never happen, checked at each call that reaches the API server. Keeps the first breach.
//
// `view` is what the caller last saw. Calls of a reconciler that leads no more are judged only
// where the API server itself must stop them: what they make is fenced by its attempt.
class Laws {
 public:
  explicit Laws(const World& world) : world_(world) {}

  void before_record(const job::Status& next);
  void before_create(std::span<const job::Action> actions, const std::vector<job::Worker>& view,
                     const job::Status& status);
  void before_delete(const job::DeleteWorker& action);

  const std::optional<std::string>& breach() const { return breach_; }
  void demand(bool law, const std::string& text);

 private:
  void check_monotone(const job::Status& before, const job::Status& next);
  void check_attempt(const job::Status& before, const job::Status& next);
  int check_replacements(const job::Status& before, const job::Status& next);
  void check_uncounted(const job::Status& before, const job::Status& next);
  void check_transitions(const job::Status& before, const job::Status& next);
  void check_success(const job::Status& next);

  const World& world_;
  std::optional<std::string> breach_;
};

}  // namespace coxswain::test
