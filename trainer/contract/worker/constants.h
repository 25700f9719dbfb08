#pragma once

#include <cstdint>
#include <string_view>

// What the operator and the trainer agree on about a pod (docs/contract.md, "What a rank finds in
// its pod"). They never change within v1alpha1.
namespace coxswain::contract {

inline constexpr std::uint16_t kSshPort = 2222;
inline constexpr std::uint16_t kRankPort = 9400;    // /metrics, /progress, /healthz of rank 0
inline constexpr std::uint16_t kServerPort = 9500;  // parameter server
inline constexpr std::uint16_t kMasterPort = 23456;
inline constexpr std::uint16_t kOperatorMetricsPort = 8080;

inline constexpr int kUserId = 10001;  // uid, gid and fsGroup
inline constexpr std::string_view kUserName = "trainer";

inline constexpr std::string_view kTrainerContainer = "trainer";
inline constexpr std::string_view kHostfilePath = "/etc/coxswain/hostfile";
inline constexpr std::string_view kConfigPath = "/etc/coxswain/training.yaml";
inline constexpr std::string_view kKeysDirectory = "/etc/coxswain/keys";
// Files in kKeysDirectory, owned by root, readable by the pod's fsGroup.
inline constexpr std::string_view kClientKeyFile = "id_ecdsa";  // mpirun's ssh
inline constexpr std::string_view kAuthorizedKeysFile = "authorized_keys";
inline constexpr std::string_view kHostKeyFile = "ssh_host_ecdsa_key";  // of every worker's sshd
inline constexpr std::string_view kKnownHostsFile = "known_hosts";
inline constexpr std::string_view kServerKeyFile = "server_key";  // the parameter server's, hex
inline constexpr std::string_view kDataDirectory = "/data";
inline constexpr std::string_view kCheckpointsDirectory = "/checkpoints";
inline constexpr std::string_view kBundledMnistDirectory = "/usr/share/coxswain/mnist";
inline constexpr std::string_view kRunDirectory = "/run/coxswain";  // env, rank-<r>.json
// How a worker ends whose ranks were on another machine that answers no more: ssh's own code.
inline constexpr int kHostLost = 255;
inline constexpr std::string_view kTerminationMessagePath = "/dev/termination-log";

}  // namespace coxswain::contract
