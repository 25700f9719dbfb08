#include <fmt/format.h>

#include "operator/cluster/base64.h"
#include "operator/cluster/pod.h"
#include "operator/cluster/pod_labels.h"
#include "operator/job/fnv1a.h"
#include "operator/job/worker_spec.h"
#include "trainer/contract/worker/constants.h"

// The objects of a job other than its pods.
namespace coxswain::cluster {

namespace {

// What every ConfigMap of this job in this size holds.
Json config_data(const job::TrainingJob& job) {
  Json data = {{"hostfile", job::hostfile(job)}};
  const std::string workers = job::worker_names(job);
  if (!workers.empty()) data["workers"] = workers;
  const std::string training = job::training_config(job);
  if (!training.empty()) data["training.yaml"] = training;
  return data;
}

std::string config_map_name(const job::TrainingJob& job, const Json& data) {
  return fmt::format("{}-{:08x}", job.metadata.name, job::fnv1a(data.dump()));
}

Json port(const char* name, int number) {
  return {{"name", name}, {"port", number}, {"protocol", "TCP"}};
}

}  // namespace

std::string service_name(const job::TrainingJob& job) { return job.metadata.name; }

std::string secret_name(const job::TrainingJob& job) { return job.status.keys_secret; }

std::string config_map_name(const job::TrainingJob& job) {
  return config_map_name(job, config_data(job));
}

Json service(const job::TrainingJob& job) {
  const Json ports =
      Json::array({port("ssh", contract::kSshPort), port("metrics", contract::kRankPort),
                   port("server", contract::kServerPort), port("master", contract::kMasterPort)});
  return {{"apiVersion", "v1"},
          {"kind", "Service"},
          {"metadata", object_metadata(job, service_name(job))},
          {"spec",
           {{"clusterIP", "None"},
            {"publishNotReadyAddresses", true},  // peers look for each other before they are Ready
            {"ports", ports},
            {"selector", {{kJobLabel, job.metadata.name}}}}}};
}

Json secret(const job::TrainingJob& job, const JobKeys& keys) {
  Json data = Json::object();
  const auto put = [&](std::string_view file, const std::string& bytes) {
    data[std::string(file)] = base64(bytes);
  };
  put(contract::kClientKeyFile, keys.client_key);
  put(contract::kAuthorizedKeysFile, keys.authorized_key);
  put(contract::kHostKeyFile, keys.host_key);
  put(contract::kKnownHostsFile, keys.known_hosts);
  put(contract::kServerKeyFile, keys.server_key);
  return {{"apiVersion", "v1"},
          {"kind", "Secret"},
          {"metadata", object_metadata(job, secret_name(job))},
          {"type", "Opaque"},
          {"immutable", true},
          {"data", data}};
}

Json config_map(const job::TrainingJob& job) {
  Json data = config_data(job);
  return {{"apiVersion", "v1"},
          {"kind", "ConfigMap"},
          {"metadata", object_metadata(job, config_map_name(job, data))},
          {"immutable", true},
          {"data", std::move(data)}};
}

Json pod_group(const job::TrainingJob& job) {
  const job::PodGroup group = job::pod_group(job);
  return {{"apiVersion", group.api_version},
          {"kind", "PodGroup"},
          {"metadata", object_metadata(job, group.name)},
          {"spec", group.spec}};
}

}  // namespace coxswain::cluster
