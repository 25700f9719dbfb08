#include <fmt/format.h>

#include <algorithm>

#include "operator/convert/foreign.h"
#include "operator/convert/launch.h"
#include "operator/convert/script.h"
#include "operator/job/json_fields.h"

namespace coxswain::convert {

namespace {

constexpr const char* kKnown =
    "convert reads MPIJob (kubeflow.org/v1, v2beta1), PyTorchJob, TFJob, MXJob (kubeflow.org/v1), "
    "TrainJob (trainer.kubeflow.org/v1alpha1) and Job (batch.volcano.sh/v1alpha1)";

const Kind* kind_among(std::initializer_list<std::span<const Kind>> tables, const Json& object) {
  for (const auto table : tables)
    for (const Kind& kind : table)
      if (kind.kind == job::text_at(object, "kind") &&
          kind.api_version == job::text_at(object, "apiVersion"))
        return &kind;
  return nullptr;
}

const Kind* job_kind(const Json& object) {
  return kind_among({mpi_kinds(), pytorch_kinds(), tensorflow_kinds(), mxnet_kinds(),
                     train_job_kinds(), volcano_kinds()},
                    object);
}

std::string name_of(const Json& object) {
  const std::string kind = job::text_at(object, "kind");
  if (kind.empty()) return "a document without a kind";
  return fmt::format("{} of {}", kind, job::text_at(object, "apiVersion"));
}

// A kind that others know, or a version that came later: it may mean anything.
bool looks_like_a_job(const Json& object) {
  const std::string kind = job::text_at(object, "kind");
  return kind.empty() || kind.ends_with("Job") || kind.ends_with("Runtime") || kind == "JobSet" ||
         kind == job::kKind;
}

// The job among the documents; the rest is for kubectl, or a runtime.
const job::JobDocument* find_job(const std::vector<job::JobDocument>& documents, Draft& draft) {
  const job::JobDocument* found = nullptr;
  for (const job::JobDocument& one : documents) {
    const std::string name = name_of(one.object);
    if (job_kind(one.object) && found)
      draft.no_place(name, "a second job; convert one file at a time");
    else if (job_kind(one.object))
      found = &one;
    else if (kind_among({runtime_kinds()}, one.object))
      continue;
    else if (job::text_at(one.object, "kind") == job::kKind)
      draft.no_place(name, "is a TrainingJob already");
    else if (looks_like_a_job(one.object))
      draft.no_place(name, kKnown);
    else
      draft.note(Outcome::kMind, name, "is no part of the job: apply it as it is");
  }
  const auto lost = [](const Note& note) { return note.outcome == Outcome::kNoPlace; };
  if (!found && std::ranges::none_of(draft.notes(), lost))
    draft.no_place("file", fmt::format("no job is in it: {}", kKnown));
  return found;
}

// What `convert -- COMMAND` would make of it is more than the same program.
void tell_of_known_script(Draft& draft) {
  const Json* pod = draft.find(kWorkerTemplate);
  if (!pod) return;
  Json copy = *pod;
  const Json* container = main_container(copy);
  for (const std::string& word : container ? words_of(*container) : std::vector<std::string>{})
    if (const Script* script = known_script(word))
      draft.note(
          Outcome::kMind, base_name(word),
          fmt::format("{} is known: coxswain convert -- with its command makes it `training`, "
                      "without an image",
                      script->what));
}

}  // namespace

Converted from_documents(const std::vector<job::JobDocument>& documents, const Request& request) {
  Foreign foreign{.draft = {}, .roles = {}, .said = {}, .image = request.image};
  foreign.draft.name = "job";
  const job::JobDocument* job = find_job(documents, foreign.draft);
  if (!job) return finish(std::move(foreign.draft), request);
  for (const job::JobDocument& one : documents) {
    const Kind* runtime = kind_among({runtime_kinds()}, one.object);
    if (runtime) read_fields(one, {runtime->rows, metadata_rows()}, foreign);
  }
  const Kind* kind = job_kind(job->object);
  read_fields(*job, {kind->rows, metadata_rows(), run_policy_rows()}, foreign);
  kind->finish(foreign);
  finish_policies(foreign);
  tell_of_known_script(foreign.draft);
  return finish(std::move(foreign.draft), request);
}

}  // namespace coxswain::convert
