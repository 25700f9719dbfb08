#include "operator/cluster/judge.h"

#include <fmt/format.h>

#include <algorithm>

#include "operator/cluster/pod.h"
#include "operator/cluster/pod_json.h"

namespace coxswain::cluster {

namespace {

// Nobody foresees the name of a Secret, which is drawn, and none can be read: if it exists already,
// it was this very request that made it, and came twice.
bool may_be_read(const kube::Resource& resource) { return resource != kube::kSecrets; }

bool is_refusal(int code) {
  switch (code) {
    case 400:
    case 403:
    case 404:
    case 405:
    case 413:
    case 415:
    case 422:
    case 500:  // a webhook that fails is one too
      return true;
    default:
      return false;
  }
}

// An object in our place that is not ours. One that leaves, or is of a job that had our name, is on
// its way out.
Outcome judge_foreign(const Create& create, const kube::Json& present) {
  const kube::ObjectMeta meta = kube::meta_of(present);
  const auto owners = present.at("metadata").value("ownerReferences", kube::Json::array());
  const bool of_a_job = std::any_of(owners.begin(), owners.end(), [](const kube::Json& owner) {
    return owner.value("kind", "") == job::kKind && owner.value("controller", false);
  });
  if (!meta.terminating && !of_a_job)
    return job::Rejection{"NameConflict",
                          fmt::format("{} {} exists and is not this job's: delete it, or give the "
                                      "job another name",
                                      create.resource.kind, meta.name)};
  const kube::Json* spec = create.worker ? find(present, "spec") : nullptr;
  return Wait{job::Predecessor{.kind = create.resource.kind,
                               .name = meta.name,
                               .node = spec ? text_at(*spec, "nodeName") : "",
                               .since = {}}};
}

Outcome judge_own_pod(const Create& create, const kube::Json& present) {
  const auto worker = worker_of(present);
  const auto& metadata = create.job.metadata;
  // Our watch would never tell of it, nor of its end.
  if (!worker || job_key_of(present) != metadata.name_space + "/" + metadata.name)
    return job::Rejection{
        "NameConflict",
        fmt::format("Pod {} has lost its label {}={}, or another of ours: delete it",
                    kube::meta_of(present).name, kJobLabel, metadata.name)};
  return worker->id == create.worker ? Outcome{Done{}} : Outcome{Wait{}};
}

}  // namespace

std::optional<job::Rejection> refusal(const kube::Resource& resource, const std::string& name,
                                      const kube::ApiError& error) {
  if (!is_refusal(error.code)) return std::nullopt;
  if (error.code == 404 && !resource.group.empty())
    return job::Rejection{"NotInstalled",
                          fmt::format("{} {} is not known to the API server: install its CRD",
                                      api_version(resource), resource.kind)};
  return job::Rejection{error.reason, fmt::format("{} {}: {}", resource.kind, name, error.message)};
}

bool must_look(const Create& create, const Answer& answer) {
  return !answer && answer.error().code == 409 && may_be_read(create.resource);
}

Outcome judge(const Create& create, const Answer& answer, const Answer& present) {
  if (!answer) {
    const kube::ApiError& error = answer.error();
    if (const auto rejection = refusal(create.resource, create.name, error)) return *rejection;
    if (error.code != 409) return error;
    if (!may_be_read(create.resource))  // else a quota is being counted: nothing was made
      return error.reason == "AlreadyExists" ? Outcome{Done{}} : Outcome{Wait{}};
    if (!present && present.error().code == 404) return Wait{};
    if (!present) return present.error();
    if (kube::meta_of(*present).controller_uid != create.job.metadata.uid)
      return judge_foreign(create, *present);
  }
  if (kube::meta_of(*present).terminating) return Wait{};
  return create.worker ? judge_own_pod(create, *present) : Done{};
}

bool must_look(const Delete&, const Answer& answer) {
  return !answer && (answer.error().code == 404 || answer.error().code == 409);
}

Outcome judge(const Delete& remove, const Answer& answer, const Answer& present) {
  if (answer) return Done{};
  if (!must_look(remove, answer)) return answer.error();
  // Gone, or another took the name; but a webhook that refuses may answer so too.
  if (!present && present.error().code != 404) return present.error();
  if (present && kube::meta_of(*present).uid == remove.uid) return answer.error();
  return Done{};
}

}  // namespace coxswain::cluster
