#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace coxswain::kube {

// Value. What shows the API server who we are; what is empty is not used.
struct Credential {
  std::string token;
  std::string certificate_pem;
  std::string key_pem;
  bool operator==(const Credential&) const = default;
};

// Value. The `exec` of a kubeconfig's user.
struct ExecPlugin {
  std::string api_version;           // client.authentication.k8s.io/v1 or v1beta1
  std::vector<std::string> command;  // with its arguments; no shell
  std::map<std::string, std::string> environment;
};

// Value. Where the API server is and who we are. Secret bytes are never printed.
struct Config {
  std::string server;  // https://host:port
  std::string ca_pem;  // empty: the system's
  std::string client_certificate_pem;
  std::string client_key_pem;
  std::filesystem::path client_certificate_file;  // where these came from, read anew at most
  std::filesystem::path client_key_file;          // every 10 s
  std::string token;                              // fixed, or:
  std::filesystem::path token_file;               // read anew at most every 10 s (it is rotated)
  std::filesystem::path ca_file;   // where ca_pem came from; kept if it becomes garbage
  std::optional<ExecPlugin> exec;  // who gave token and certificate, to be run again
  std::optional<std::chrono::system_clock::time_point> exec_expiry;
  bool insecure = false;  // no check of the server's certificate
  std::string name_space = "default";
};

struct ConfigRules {
  bool allow_insecure = false;  // plain http and insecure-skip-tls-verify
  bool allow_exec = false;      // `exec` plug-ins, which run a program for a token
  std::string context = {};     // empty: the current one
};

// Reads a kubeconfig (YAML or JSON, at most 1 MiB). Throws Error(kBadInput) that names the file,
// the key and what to write instead: no current-context (and which there are), a context, cluster
// or user not found, a server that is no https URL or holds a password, data that is no base64 or
// no PEM, a key that does not match its certificate, exec, auth-provider.
Config read_kubeconfig(const std::filesystem::path& path, const ConfigRules& rules);

// The ServiceAccount of the pod: `directory` holds token, ca.crt and namespace. nullopt outside a
// pod (`host` and `port` are those of KUBERNETES_SERVICE_HOST and _PORT, given by the caller).
std::optional<Config> in_cluster_config(
    const std::string& host, const std::string& port,
    const std::filesystem::path& directory = "/var/run/secrets/kubernetes.io/serviceaccount");

}  // namespace coxswain::kube
