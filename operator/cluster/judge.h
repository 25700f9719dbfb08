#pragma once

#include <optional>
#include <string>
#include <variant>

#include "operator/job/observed.h"
#include "operator/job/training_job.h"
#include "operator/kube/object.h"
#include "operator/kube/result.h"

// PURE: what the API server's answer to a create or a delete means for the job that asked.
namespace coxswain::cluster {

struct Done {};
struct Wait {                                   // something is in the way, and on its way out
  std::optional<job::Predecessor> predecessor;  // if it is not ours
};
// A Rejection stays until somebody changes something, an ApiError may be gone at the next try.
using Outcome = std::variant<Done, Wait, job::Rejection, kube::ApiError>;
using Answer = kube::Result<kube::Json>;

// What was asked for.
struct Create {
  const job::TrainingJob& job;
  const kube::Resource& resource;
  std::string name;
  std::optional<job::WorkerId> worker = {};  // of a pod
};
struct Delete {
  std::string uid;
};

// The answer leaves open what has the name now: a GET must tell.
bool must_look(const Create& create, const Answer& answer);
bool must_look(const Delete& remove, const Answer& answer);

// `present`: what that GET gave; the answer itself where none was needed.
Outcome judge(const Create& create, const Answer& answer, const Answer& present);
Outcome judge(const Delete& remove, const Answer& answer, const Answer& present);

// An answer that is no accident, and stays the same until somebody changes something: quota,
// admission, policy, a kind that is not installed.
std::optional<job::Rejection> refusal(const kube::Resource& resource, const std::string& name,
                                      const kube::ApiError& error);

}  // namespace coxswain::cluster
