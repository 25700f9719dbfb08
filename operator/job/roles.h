#pragma once

#include <string_view>
#include <vector>

#include "operator/job/training_job.h"
#include "trainer/contract/worker/constants.h"

namespace coxswain::job {

// What a job may take of a machine's ports: below NodePorts (30000) and the ports of outgoing
// connections (32768), above what clusters run on their nodes.
inline constexpr int kFirstHostPort = 20000;
inline constexpr int kEndOfHostPorts = 30000;

// Where the programs of a job listen: on the ports of the contract; on the host's network, where
// all pods of a node share one set of ports, on some in a row of the attempt's own.
struct Ports {
  int ssh = contract::kSshPort;
  int rank = contract::kRankPort;
  int server = contract::kServerPort;
  int server_rank = contract::kRankPort;  // of a server's endpoint
  int master = contract::kMasterPort;
  int peer = contract::kServerPort;  // of a worker's first rank where mpirun starts none
  bool operator==(const Ports&) const = default;
};
Ports ports_of(const TrainingJob& job);

// What sets one role of a job's pods apart from another. A new role is its words, a row, and its
// replicas in the spec.
struct RoleTraits {
  Role role = Role::kWorker;
  const ReplicaSpec* (*replicas)(const Spec& spec);  // nullptr: the job has none
  int (*size)(const TrainingJob& job);               // pods of the recorded attempt
  int (*slots)(const Spec& spec);                    // ranks in each pod
  bool (*serves)(const Spec& spec, int index);       // ends only when it is told to
  // A pod that is lost is made anew beside the others, which train on; else the whole gang is.
  bool (*is_replaced_alone)(const Spec& spec);
  int Ports::*port;           // where the programs of its peers find it
  int Ports::*endpoint;       // of /healthz, of programs of ours
  std::string_view task;      // of TF_CONFIG
};

const RoleTraits& traits_of(Role role);

// Of the roles that have any, in the order in which their pods are made.
std::vector<RoleTraits> roles_of(const Spec& spec);

// True for pods that end only when they are told to: MPI workers >= 1 and servers.
bool serves(const Spec& spec, Role role, int index);

// The pods that a job asks for, of all roles.
int pods_of(const Spec& spec);

// What the status says of a pod that was made anew; nullptr: it was not.
const Replacement* replacement_of(const Status& status, Role role, int index);

// Of the pod that the status wants in this place.
int incarnation_of(const Status& status, Role role, int index);

// Whether the pod is of the recorded attempt, and the one that is wanted in its place.
bool is_current(const Status& status, const WorkerId& id);

// Every pod of the recorded attempt, role by role.
std::vector<WorkerId> gang(const TrainingJob& job);

bool on_host_network(const ReplicaSpec& replicas);

// The first of an attempt's host ports, as the status keeps it; 0: no pod of the job is on the
// host's network. Other attempts and other jobs draw others, nearly always: the scheduler keeps
// pods that drew the same apart, and what nobody declared makes one attempt fail.
int draw_host_port(const TrainingJob& job, int attempt);

}  // namespace coxswain::job
