#include "operator/kube/exec_credential.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "operator/kube/certificates.h"
#include "operator/kube/json_reader.h"
#include "operator/kube/watched_file.h"
#include "trainer/contract/error.h"
#include "trainer/contract/rfc3339.h"
#include "trainer/contract/worker/child_process.h"
#include "trainer/contract/worker/json_fields.h"

namespace coxswain::kube {

namespace {

using contract::text_at;
using std::chrono::steady_clock;

constexpr std::size_t kMaxOutputBytes = 1 << 20;
constexpr std::chrono::seconds kDeadline{10};

[[noreturn]] void fail(const ExecPlugin& plugin, const std::string& what) {
  throw Error(ExitCode::kBadInput,
              fmt::format("[kube] exec plug-in {}: {}", plugin.command.front(), what));
}

std::chrono::milliseconds left_until(steady_clock::time_point deadline) {
  return std::max(std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now()),
                  std::chrono::milliseconds(0));
}

// All that comes out of `fd` until its end.
std::string read_output(int fd, steady_clock::time_point deadline, const ExecPlugin& plugin) {
  std::string output;
  char piece[4096];
  while (true) {
    const auto left = left_until(deadline);
    if (left.count() == 0) fail(plugin, "no answer within 10 s");
    contract::wait_readable({fd}, left);
    const ssize_t size = read(fd, piece, sizeof piece);
    if (size == 0) return output;
    if (size < 0 && errno != EAGAIN && errno != EINTR) fail(plugin, "its output can't be read");
    if (size > 0) output.append(piece, static_cast<std::size_t>(size));
    if (output.size() > kMaxOutputBytes) fail(plugin, "prints more than 1 MiB");
  }
}

void check_certificate(const Credential& credential, const ExecPlugin& plugin) {
  if (const auto problem = problem_of_certificates(credential.certificate_pem))
    fail(plugin, "the certificate that it gave " + *problem);
  if (const auto problem = problem_of_key(credential.key_pem, credential.certificate_pem))
    fail(plugin, "the key that it gave " + *problem);
}

}  // namespace

ExecCredential run_exec_plugin(const ExecPlugin& plugin) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail(plugin, "no pipe for its output");
  const contract::FileDescriptor out(ends[0]);
  contract::FileDescriptor in(ends[1]);
  fcntl(out.get(), F_SETFL, O_NONBLOCK);
  const auto deadline = steady_clock::now() + kDeadline;
  contract::ProcessOptions options;
  options.command = plugin.command;
  options.environment = plugin.environment;
  options.environment["KUBERNETES_EXEC_INFO"] = Json{
      {"apiVersion", plugin.api_version},
      {"kind", "ExecCredential"},
      {"spec", {{"interactive", false}}}}.dump();
  options.stdout_fd = in.get();
  contract::ChildProcess child(options);
  in.close();
  const std::string output = read_output(out.get(), deadline, plugin);
  contract::wait_readable({child.descriptor()}, left_until(deadline));
  const auto end = child.end();
  if (!end) fail(plugin, "does not end within 10 s");
  if (end->code != 0) fail(plugin, fmt::format("ended with exit code {}", end->code));
  return parse_exec_credential(output, plugin);
}

ExecCredential parse_exec_credential(std::string_view text, const ExecPlugin& plugin) {
  const std::optional<Json> answer = parse_object(text);
  if (!answer || text_at(*answer, "kind") != "ExecCredential")
    fail(plugin, "prints no ExecCredential in JSON");
  if (text_at(*answer, "apiVersion") != plugin.api_version)
    fail(plugin, fmt::format("answers in another apiVersion than {}", plugin.api_version));
  const Json& status = contract::member(*answer, "status");
  if (!status.is_object()) fail(plugin, "its answer has no status");
  Credential credential{.token = text_at(status, "token"),
                        .certificate_pem = text_at(status, "clientCertificateData"),
                        .key_pem = text_at(status, "clientKeyData")};
  if (credential.token.empty() && credential.certificate_pem.empty())
    fail(plugin, "its answer holds neither a token nor a certificate");
  if (!credential.token.empty() && !is_token(credential.token))
    fail(plugin, "its token holds spaces or control characters");
  if (!credential.certificate_pem.empty()) check_certificate(credential, plugin);
  const std::string expiry = text_at(status, "expirationTimestamp");
  if (expiry.empty()) return {std::move(credential), std::nullopt};
  const auto time = parse_rfc3339(expiry);
  if (!time) fail(plugin, "its expirationTimestamp is no time, such as 2026-01-31T12:00:00Z");
  return {std::move(credential), time};
}

}  // namespace coxswain::kube
