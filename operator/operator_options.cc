#include <arpa/inet.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <random>

#include "operator/job/validation.h"
#include "operator/operator.h"
#include "trainer/contract/error.h"

namespace coxswain {

namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool is_numeric_address(const std::string& text) {
  in6_addr address{};
  return inet_pton(AF_INET, text.c_str(), &address) == 1 ||
         inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

void check_name(const char* flag, const std::string& name) {
  if (!job::is_dns_label(name))
    throw Error(ExitCode::kUsage,
                fmt::format("{} '{}': is no name of a namespace", flag, name.substr(0, 64)));
}

}  // namespace

kube::Config find_api_server(const std::string& kubeconfig, const kube::ConfigRules& rules) {
  if (!kubeconfig.empty()) return kube::read_kubeconfig(kubeconfig, rules);
  if (const std::string named = environment("KUBECONFIG"); !named.empty())
    return kube::read_kubeconfig(named, rules);
  if (auto own = kube::in_cluster_config(environment("KUBERNETES_SERVICE_HOST"),
                                         environment("KUBERNETES_SERVICE_PORT")))
    return *own;
  const std::filesystem::path home = environment("HOME");
  const auto file = home / ".kube" / "config";
  if (!home.empty() && std::filesystem::exists(file)) return kube::read_kubeconfig(file, rules);
  throw Error(ExitCode::kUsage,
              fmt::format("[operator] neither a kubeconfig nor a service account found: tried "
                          "--kubeconfig, $KUBECONFIG, the pod's account and {}",
                          file.string()));
}

std::string make_identity() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = 0;
  return fmt::format("{}_{:08x}", host.data(), std::random_device()());
}

void set_metrics_address(OperatorOptions& options, const std::string& text) {
  options.metrics_host.clear();
  if (text.empty()) return;
  const std::size_t colon = text.rfind(':');
  std::string host = text.substr(0, std::min(colon, text.size()));
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const char* end = text.data() + text.size();
  int port = -1;
  const bool is_number =
      colon != std::string::npos && std::from_chars(text.data() + colon + 1, end, port).ptr == end;
  if (!is_number || port < 0 || port > 65535)
    throw Error(ExitCode::kUsage,
                fmt::format("--metrics-address {}: write HOST:PORT, such as :8080 or "
                            "127.0.0.1:8080, with a port up to 65535",
                            text));
  if (!host.empty() && !is_numeric_address(host))
    throw Error(ExitCode::kUsage,
                fmt::format("--metrics-address {}: the host must be a numeric address, such as "
                            "127.0.0.1 or [::1]; none means every address",
                            text));
  options.metrics_host = host.empty() ? "::" : host;
  options.metrics_port = static_cast<std::uint16_t>(port);
}

void check_image(const char* flag, const std::string& image) {
  if (job::is_image_reference(image)) return;
  throw Error(ExitCode::kUsage, fmt::format("{} {}: not an image ([registry/]name[:tag])", flag,
                                            image.substr(0, 64)));
}

void check_names(OperatorOptions& options) {
  std::vector<std::string> namespaces;
  for (const std::string& list : options.namespaces) {
    for (std::size_t start = 0; start <= list.size();) {
      const std::size_t end = std::min(list.find(',', start), list.size());
      namespaces.push_back(list.substr(start, end - start));
      check_name("--namespaces", namespaces.back());
      start = end + 1;
    }
  }
  options.namespaces = std::move(namespaces);
  std::ranges::sort(options.namespaces);
  const auto repeated = std::ranges::unique(options.namespaces);
  options.namespaces.erase(repeated.begin(), repeated.end());
  check_name("--lease-namespace", options.lease_namespace);
  check_image("--trainer-image", options.installation.trainer_image);
  check_image("--trainer-cuda-image", options.installation.trainer_cuda_image);
}

}  // namespace coxswain
