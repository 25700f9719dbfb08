#pragma once

#include <string>

#include "operator/job/training_job.h"
#include "trainer/contract/worker/constants.h"

// PURE: where the programs of a job listen.
namespace coxswain::job {

// Those of the contract; on the host's network, where all pods of a node share one set of ports,
// four in a row of the attempt's own.
struct Ports {
  int ssh = contract::kSshPort;
  int rank = contract::kRankPort;
  int server = contract::kServerPort;
  int master = contract::kMasterPort;
  bool operator==(const Ports&) const = default;
};
Ports ports_of(const TrainingJob& job);

bool on_host_network(const ReplicaSpec& replicas);

// The first of an attempt's host ports, as the status keeps it; 0: no pod of the job is on the
// host's network. Other attempts and other jobs draw others, nearly always: the scheduler keeps
// pods that drew the same apart, and what nobody declared makes one attempt fail.
int draw_host_port(const TrainingJob& job, int attempt);

}  // namespace coxswain::job
