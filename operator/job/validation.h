#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "operator/job/observed.h"
#include "operator/job/training_job.h"

namespace coxswain::job {

class JsonFields;

// Every reason why this job can't start as it is written, job.problems included; empty: it can.
// Needs no cluster. `coxswain validate` prints them all; the condition Invalid carries the first.
std::vector<Problem> validate(const TrainingJob& job, const Installation& installation);

// The rules that this is made of, file by file.

// What is wrong with one role's pod template: what the API server or the Pod Security level of the
// namespace would refuse, what we set ourselves, what can't work. `path` is the template's.
void check_template(const TrainingJob& job, const ReplicaSpec& replicas, const std::string& path,
                    const Installation& installation, std::vector<Problem>& problems);

// A job's own volume: one source, of a kind that the namespace's level allows.
void check_volume_source(const Json& source, const std::string& path,
                         const Installation& installation, std::vector<Problem>& problems);

// [registry/]name[:tag][@digest]
bool is_image_reference(const std::string& text);

// What the API server refuses of a pod, and no schema says: it looks at a template only when a pod
// is made of it, which is too late for whoever wrote the job. `path` is the template's.
void check_pod(const Json& pod_template, const std::string& path, std::vector<Problem>& problems);

// Of it, what the tables of pod_tables.h say of one value at `path`, which without indices is
// `place`; `spec` is the pod's.
void check_by_tables(const Json& value, std::string_view place, const std::string& path,
                     const Json& spec, std::vector<Problem>& problems);

// Of it, what the containers of a PodSpec say of each other, its volumes and its resources.
void check_pod_containers(const Json& spec, const std::string& path,
                          std::vector<Problem>& problems);

// The same of a volume's source.
void check_volume(const Json& source, const std::string& path, std::vector<Problem>& problems);

// Labels and annotations: of a job, or of a template. `path` is of what holds them.
void check_metadata(const Json& metadata, const std::string& path, std::vector<Problem>& problems);

// What the Pod Security level of the job's namespace forbids in a PodSpec. What `restricted` needs
// is not asked for here: our pods get it by default.
void check_pod_security(JsonFields& pod, const Installation& installation);
// The same of a template's metadata.
void check_pod_security_annotations(JsonFields& metadata, const Installation& installation);

void check_volume_kind(const std::string& kind, const std::string& path,
                       const Installation& installation, std::vector<Problem>& problems);

// A job acts in its own namespace: no field at any depth may name another.
void refuse_namespaces(const Json& value, const std::string& path, std::vector<Problem>& problems);

// What a structural OpenAPI v3 schema of Kubernetes refuses of `value`, which is at `path`: types,
// limits, words, required and unknown fields, twins in lists that are maps. As the API server does
// for `kubectl apply`, but for rules in CEL. A null field is an absent one.
void check_schema(const Json& value, const Json& schema, const std::string& path,
                  std::vector<Problem>& problems);

// The forms of names that Kubernetes knows.
// https://kubernetes.io/docs/concepts/overview/working-with-objects/names/, .../labels/

bool is_dns_label(std::string_view text);       // "worker-0": at most 63 characters
bool is_dns_subdomain(std::string_view text);   // "a.b-1": at most 253
bool is_label_value(std::string_view text);     // "", "A_b.1": at most 63
bool is_qualified_name(std::string_view text);  // "app", "example.org/app"

}  // namespace coxswain::job
