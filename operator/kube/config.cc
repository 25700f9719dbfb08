#include "operator/kube/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <vector>

#include "operator/kube/certificates.h"
#include "operator/kube/exec_credential.h"
#include "operator/kube/server_url.h"
#include "operator/kube/watched_file.h"
#include "trainer/contract/config/yaml_text.h"
#include "trainer/contract/error.h"

namespace coxswain::kube {

namespace {

namespace fs = std::filesystem;

// The file and the place in it that an error is about.
struct Place {
  const fs::path& file;
  std::string path;  // "users[2].user"

  [[noreturn]] void fail(const std::string& key, const std::string& what) const {
    const std::string where = path.empty() ? key : key.empty() ? path : path + "." + key;
    throw Error(ExitCode::kBadInput, fmt::format("[kube] {}{}{}: {}", file.string(),
                                                 where.empty() ? "" : ": ", where, what));
  }
};

std::string text_of(const YAML::Node& node, const std::string& key, const Place& place) {
  const YAML::Node value = node[key];
  if (!value || value.IsNull()) return "";
  if (!value.IsScalar()) place.fail(key, "must be text");
  return value.Scalar();
}

// One of `contexts`, `clusters`, `users`: the inner object of the entry called `name`.
YAML::Node entry_of(const YAML::Node& root, const std::string& list, const std::string& inner,
                    const std::string& name, Place& place) {
  std::vector<std::string> known;
  const YAML::Node entries = root[list];
  if (entries && !entries.IsNull() && !entries.IsSequence()) place.fail(list, "must be a list");
  for (std::size_t i = 0; entries && i < entries.size(); ++i) {
    place.path = fmt::format("{}[{}]", list, i);
    if (!entries[i].IsMap()) place.fail("", "must be an object");
    const std::string entry_name = text_of(entries[i], "name", place);
    known.push_back(entry_name);
    if (entry_name != name) continue;
    place.path += "." + inner;
    const YAML::Node found = entries[i][inner];
    if (found && !found.IsNull() && !found.IsMap()) place.fail("", "must be an object");
    return found && found.IsMap() ? found : YAML::Node(YAML::NodeType::Map);
  }
  place.path.clear();
  place.fail(list, known.empty()
                       ? fmt::format("{} not found: the list is empty", name)
                       : fmt::format("{} not found; there are: {}", name, fmt::join(known, ", ")));
}

// Either `key`-data in base64 or the file that `key` names; empty: neither is there.
struct Pem {
  std::string text;
  std::string key;  // as in the error messages
  fs::path file;
};

Pem read_pem(const YAML::Node& node, const std::string& key, const Place& place) {
  const std::string data = text_of(node, key + "-data", place);
  if (!data.empty()) {
    const auto text = decode_base64(data);
    if (!text) place.fail(key + "-data", "is no base64");
    return {*text, key + "-data", {}};
  }
  const std::string name = text_of(node, key, place);
  if (name.empty()) return {{}, key, {}};
  const fs::path file = place.file.parent_path() / name;
  const auto text = read_small_file(file);
  if (!text) place.fail(key, fmt::format("{} can't be read", file.string()));
  return {*text, key, file};
}

void refuse_key(const YAML::Node& node, const char* key, const char* what, const Place& place) {
  if (node[key] && !node[key].IsNull()) place.fail(key, what);
}

void read_cluster(const YAML::Node& cluster, const ConfigRules& rules, const Place& place,
                  Config& config) {
  config.server = text_of(cluster, "server", place);
  if (config.server.empty()) place.fail("server", "is missing: write https://host:port");
  if (const auto problem = problem_of_server(config.server, rules.allow_insecure))
    place.fail("server", *problem);
  refuse_key(cluster, "proxy-url", "is not supported", place);
  refuse_key(cluster, "tls-server-name", "is not supported: the server's name must be in its URL",
             place);
  const std::string insecure = text_of(cluster, "insecure-skip-tls-verify", place);
  if (insecure != "" && insecure != "true" && insecure != "false")
    place.fail("insecure-skip-tls-verify", "must be true or false");
  config.insecure = insecure == "true";
  if (config.insecure && !rules.allow_insecure)
    place.fail("insecure-skip-tls-verify",
               "anybody could pose as the server: give certificate-authority instead, or pass "
               "--allow-insecure");
  const Pem ca = read_pem(cluster, "certificate-authority", place);
  if (ca.text.empty() && ca.file.empty()) return;
  if (const auto problem = problem_of_certificates(ca.text)) place.fail(ca.key, *problem);
  config.ca_pem = ca.text;
  config.ca_file = ca.file;
}

void read_certificate(const YAML::Node& user, const Place& place, Config& config) {
  const Pem certificate = read_pem(user, "client-certificate", place);
  const Pem key = read_pem(user, "client-key", place);
  if (certificate.text.empty() && key.text.empty()) return;
  if (certificate.text.empty()) place.fail(key.key, "is given without client-certificate");
  if (key.text.empty()) place.fail(certificate.key, "is given without client-key");
  if (const auto problem = problem_of_certificates(certificate.text))
    place.fail(certificate.key, *problem);
  if (const auto problem = problem_of_key(key.text, certificate.text))
    place.fail(key.key, *problem);
  config.client_certificate_pem = certificate.text;
  config.client_key_pem = key.text;
  config.client_certificate_file = certificate.file;
  config.client_key_file = key.file;
}

ExecPlugin read_exec(const YAML::Node& exec, const Place& place) {
  if (!exec.IsMap()) place.fail("", "must be an object");
  ExecPlugin plugin;
  plugin.api_version = text_of(exec, "apiVersion", place);
  if (plugin.api_version != "client.authentication.k8s.io/v1" &&
      plugin.api_version != "client.authentication.k8s.io/v1beta1")
    place.fail("apiVersion", "must be client.authentication.k8s.io/v1 or .../v1beta1");
  std::string command = text_of(exec, "command", place);
  if (command.empty()) place.fail("command", "is missing");
  // A path in the file is relative to the file; a bare name is looked for in PATH.
  if (command.find('/') != std::string::npos)
    command = (place.file.parent_path() / command).string();
  plugin.command.push_back(command);
  const YAML::Node arguments = exec["args"];
  if (arguments && !arguments.IsNull() && !arguments.IsSequence())
    place.fail("args", "must be a list of texts");
  for (std::size_t i = 0; arguments && i < arguments.size(); ++i) {
    if (!arguments[i].IsScalar()) place.fail("args", "must be a list of texts");
    plugin.command.push_back(arguments[i].Scalar());
  }
  const YAML::Node variables = exec["env"];
  if (variables && !variables.IsNull() && !variables.IsSequence())
    place.fail("env", "must be a list");
  for (std::size_t i = 0; variables && i < variables.size(); ++i) {
    if (!variables[i].IsMap()) place.fail("env", "must hold objects with name and value");
    plugin.environment[text_of(variables[i], "name", place)] =
        text_of(variables[i], "value", place);
  }
  return plugin;
}

void use_exec(const YAML::Node& user, const ConfigRules& rules, Place place, Config& config) {
  if (!rules.allow_exec)
    place.fail("exec",
               "runs a program for a token, which is not allowed: give a token, tokenFile or "
               "client certificate, or pass --allow-exec");
  place.path += ".exec";
  config.exec = read_exec(user["exec"], place);
  const auto [credential, expiry] = run_exec_plugin(*config.exec);
  config.exec_expiry = expiry;
  config.token = credential.token;
  config.client_certificate_pem = credential.certificate_pem;
  config.client_key_pem = credential.key_pem;
}

// What a script left empty would make us somebody else: nobody at all.
void refuse_empty(const YAML::Node& user, const char* key, const Place& place) {
  const YAML::Node value = user[key];
  if (!value.IsDefined()) return;
  if (value.IsNull() || (value.IsScalar() && trimmed(value.Scalar()).empty()))
    place.fail(key, "is empty: fill it in, or remove it");
}

void read_user(const YAML::Node& user, const ConfigRules& rules, const Place& place,
               Config& config) {
  refuse_key(user, "auth-provider",
             "is not supported (Kubernetes removed it in 1.26): give a token or exec", place);
  refuse_key(user, "username", "is not supported: give a token or a client certificate", place);
  refuse_key(user, "password", "is not supported: give a token or a client certificate", place);
  refuse_key(user, "as", "is not supported: act as the user of the token itself", place);
  for (const char* key : {"token", "tokenFile", "client-certificate", "client-certificate-data",
                          "client-key", "client-key-data"})
    refuse_empty(user, key, place);
  read_certificate(user, place, config);
  config.token = text_of(user, "token", place);
  if (!config.token.empty() && !is_token(config.token))
    place.fail("token", "is no token: it holds spaces or control characters");
  const std::string token_file = text_of(user, "tokenFile", place);
  if (!token_file.empty()) {
    config.token.clear();  // the file is the newer one
    config.token_file = place.file.parent_path() / token_file;
    const auto text = read_small_file(config.token_file);
    if (!text || !is_token(trimmed(*text)))
      place.fail("tokenFile", config.token_file.string() + " holds no token, or can't be read");
  }
  if (user["exec"] && !user["exec"].IsNull() && config.token.empty() && token_file.empty() &&
      config.client_key_pem.empty())
    use_exec(user, rules, place, config);
}

std::string current_context(const YAML::Node& root, const Place& place) {
  const std::string current = text_of(root, "current-context", place);
  if (!current.empty()) return current;
  std::vector<std::string> known;
  const YAML::Node contexts = root["contexts"];
  for (std::size_t i = 0; contexts && contexts.IsSequence() && i < contexts.size(); ++i)
    if (contexts[i].IsMap()) known.push_back(text_of(contexts[i], "name", place));
  place.fail("current-context",
             known.empty()
                 ? "is not set, and there are no contexts: is this a kubeconfig?"
                 : fmt::format("is not set: name one of the contexts: {}", fmt::join(known, ", ")));
}

YAML::Node load(const fs::path& path) {
  const YAML::Node root = contract::load_yaml(contract::read_yaml_file(path), path.string());
  const Place place{path, ""};
  if (!root.IsDefined() || root.IsNull()) place.fail("", "is empty; write a kubeconfig");
  if (!root.IsMap()) place.fail("", "is no kubeconfig: must be an object");
  if (const std::string kind = text_of(root, "kind", place); !kind.empty() && kind != "Config")
    place.fail("kind", "must be Config");
  return root;
}

}  // namespace

Config read_kubeconfig(const std::filesystem::path& path, const ConfigRules& rules) {
  const YAML::Node root = load(path);
  Place place{path, ""};
  const std::string chosen =
      rules.context.empty() ? current_context(root, place) : rules.context;
  const YAML::Node context = entry_of(root, "contexts", "context", chosen, place);
  const auto part_of_context = [&](const char* key) {
    const std::string name = text_of(context, key, place);
    if (name.empty()) place.fail(key, "is missing");
    return name;
  };
  Config config;
  if (const std::string name_space = text_of(context, "namespace", place); !name_space.empty())
    config.name_space = name_space;
  const std::string cluster_name = part_of_context("cluster");
  const std::string user_name = part_of_context("user");
  Place of_cluster{path, ""};
  const YAML::Node cluster = entry_of(root, "clusters", "cluster", cluster_name, of_cluster);
  read_cluster(cluster, rules, of_cluster, config);
  Place of_user{path, ""};
  const YAML::Node user = entry_of(root, "users", "user", user_name, of_user);
  read_user(user, rules, of_user, config);
  return config;
}

std::optional<Config> in_cluster_config(const std::string& host, const std::string& port,
                                        const std::filesystem::path& directory) {
  if (host.empty() || port.empty()) return std::nullopt;
  const Place place{directory, ""};
  Config config;
  const bool is_ipv6 = host.find(':') != std::string::npos;
  config.server = fmt::format("https://{}:{}", is_ipv6 ? "[" + host + "]" : host, port);
  if (const auto problem = problem_of_server(config.server, false))
    throw Error(ExitCode::kBadInput,
                fmt::format("[kube] KUBERNETES_SERVICE_HOST and _PORT: {}", *problem));
  config.token_file = directory / "token";
  const auto token = read_small_file(config.token_file);
  if (!token || !is_token(trimmed(*token)))
    place.fail("token",
               "no token of a ServiceAccount: does the pod have "
               "automountServiceAccountToken: false?");
  config.ca_file = directory / "ca.crt";
  const auto ca = read_small_file(config.ca_file);
  if (!ca) place.fail("ca.crt", "can't be read");
  if (const auto problem = problem_of_certificates(*ca)) place.fail("ca.crt", *problem);
  config.ca_pem = *ca;
  if (const auto name_space = read_small_file(directory / "namespace"))
    if (const std::string text = trimmed(*name_space); !text.empty()) config.name_space = text;
  return config;
}

}  // namespace coxswain::kube
