#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "operator/job/observed.h"
#include "operator/kube/config.h"
#include "trainer/contract/worker/constants.h"

namespace coxswain {

struct OperatorOptions {
  kube::Config config;
  std::vector<std::string> namespaces;  // to watch; empty: all of them
  bool leader_elect = false;
  std::string lease_namespace;      // empty: the one we are in
  std::string identity;             // of this process among operators, and in events
  std::string metrics_host = "::";  // numeric; empty: no endpoint
  std::uint16_t metrics_port = contract::kOperatorMetricsPort;
  job::Installation installation;
  bool progress = true;  // ask rank 0 of running jobs how far they are
  int workers = 8;       // reconciles at once
  bool log_json = false;
};

// Where the API server is: `kubeconfig` if given, $KUBECONFIG, the pod's own account, or
// ~/.kube/config. Throws Error that names the paths tried.
kube::Config find_api_server(const std::string& kubeconfig, const kube::ConfigRules& rules);

// "<host name>_<random>"
std::string make_identity();

// Reads "HOST:PORT"; an empty host is every address, an empty text no endpoint. Throws Error.
void set_metrics_address(OperatorOptions& options, const std::string& text);

// Splits namespaces that were given as "a,b"; each to watch once. Throws Error for what is no name
// of a namespace, or no image.
void check_names(OperatorOptions& options);

// Watches jobs and makes what they need, until SIGTERM or SIGINT (0) or until its lease is lost
// (71). Throws Error for what can't work from the start.
int run_operator(const OperatorOptions& options);

}  // namespace coxswain
