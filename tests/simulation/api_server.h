#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "operator/job/training_job.h"
#include "operator/kube/object.h"
#include "operator/kube/transport.h"
#include "operator/kube/watch.h"

namespace coxswain::test {

using kube::Json;
using Object = std::shared_ptr<const Json>;

// One change of one object, as a watch tells it.
struct Revision {
  std::uint64_t version = 0;
  std::string resource;  // plural
  kube::WatchEventType type = kube::WatchEventType::kAdded;
  Object object;  // of a deletion: as it was last
};

// Model of a Kubernetes API server with one storage: versions, uids, preconditions, graceful
// deletion of pods, garbage collection, quota, status codes and messages of the real one. It knows
// the kinds that the operator uses; a CRD that is not installed is a path that does not exist.
// Reads are consistent, as the real one's are without resourceVersion.
class ApiServer {
 public:
  job::Time now{job::Seconds(1'700'000'000)};
  std::optional<int> pod_quota;  // of living pods, all namespaces together
  // A request of an operator is about to change something: the object as it is (null: none), and as
  // it will be (null: it goes).
  std::function<void(const std::string& resource, const Object& before, const Object& after)>
      on_change = [](const std::string&, const Object&, const Object&) {};

  kube::Response answer(const kube::Request& request);
  // The same to a GET or a list, but as things were at `version`: a server that lags.
  kube::Response answer_as_of(const kube::Request& request, std::uint64_t version) const;

  // For users, kubelets and controllers, who are not watched over.
  Object find(const std::string& resource, const std::string& key) const;
  std::vector<Object> all(const std::string& resource) const;
  std::string create(const std::string& resource, Json object);  // its uid
  void edit(const std::string& resource, const std::string& key,
            const std::function<void(Json&)>& change);
  // Gracefully, if it is a pod that runs somewhere; at once if `grace` is 0.
  void remove(const std::string& resource, const std::string& key,
              std::optional<job::Seconds> grace = std::nullopt);
  void collect_garbage();  // children whose owner is gone

  const std::vector<Revision>& history() const { return history_; }
  std::uint64_t version() const { return version_; }

 private:
  struct Target;
  using Objects = std::map<std::string, Object>;  // by NS/NAME

  kube::Response post(const Target& target, Json object);
  kube::Response patch(const Target& target, const Json& change);
  kube::Response erase(const Target& target, const Json& options);
  kube::Response list(const Target& target, const Objects& objects, std::uint64_t version) const;
  kube::Response erase_pod(const Target& target, const Object& pod, job::Seconds grace, bool ours);
  Objects objects_at(const std::string& resource, std::uint64_t version) const;
  int living_pods() const;
  Object commit(const std::string& resource, kube::WatchEventType type, Json object);

  std::uint64_t version_ = 1000;
  int next_uid_ = 1;
  std::map<std::string, Objects> objects_;  // by plural
  std::vector<Revision> history_;
};

bool is_living_pod(const Json& pod);            // neither Succeeded nor Failed
bool is_terminating(const Json& object);        // has a deletionTimestamp
std::string controller_of(const Json& object);  // its uid; empty: none
kube::Response status_response(int code, const std::string& reason, const std::string& message);

}  // namespace coxswain::test
