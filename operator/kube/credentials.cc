#include "operator/kube/credentials.h"

#include <fmt/format.h>

#include <utility>

#include "operator/kube/certificates.h"
#include "operator/kube/exec_credential.h"
#include "trainer/contract/error.h"

namespace coxswain::kube {

namespace {

std::optional<std::string> token_in(const std::string& bytes) {
  std::string text = trimmed(bytes);
  return is_token(text) ? std::optional(std::move(text)) : std::nullopt;
}

std::optional<std::string> any_text(const std::string& bytes) {
  return bytes.empty() ? std::nullopt : std::optional(bytes);
}

// For a file that is read anew, when it stops being good.
std::function<void()> garbage(const std::function<void(const std::string&)>& warn,
                              const std::filesystem::path& file, const char* what) {
  return [warn, text = fmt::format("[kube] {} is gone or holds no {}: the one before is kept",
                                   file.string(), what)] { warn(text); };
}

}  // namespace

Credentials::Credentials(const Config& config, std::function<void(const std::string&)> warn,
                         Clock clock, const WatchedFile::Clock& clock_of_files)
    : plugin_(config.exec),
      warn_(std::move(warn)),
      clock_(std::move(clock)),
      token_(config.token_file, config.token, token_in, garbage(warn_, config.token_file, "token"),
             clock_of_files),
      certificate_(config.client_certificate_file, config.client_certificate_pem, any_text,
                   garbage(warn_, config.client_certificate_file, "certificate"), clock_of_files),
      key_(config.client_key_file, config.client_key_pem, any_text,
           garbage(warn_, config.client_key_file, "key"), clock_of_files),
      credential_{config.token, config.client_certificate_pem, config.client_key_pem},
      expiry_(config.exec_expiry) {}

Credential Credentials::now() {
  if (plugin_) {
    run_plugin([this] { return expiry_ && clock_() >= *expiry_ - kAhead; });
  } else {
    read_files();
  }
  const std::lock_guard lock(mutex_);
  return credential_;
}

bool Credentials::renew(const Credential& used) {
  if (plugin_) run_plugin([&] { return credential_ == used; });
  const std::lock_guard lock(mutex_);
  return credential_ != used;
}

void Credentials::read_files() {
  Credential read{token_.text(), certificate_.text(), key_.text()};
  std::optional<std::string> problem;
  {
    const std::lock_guard lock(mutex_);
    credential_.token = read.token;
    if (read == credential_ || read == refused_pair_) return;
  }
  problem = problem_of_pair(read);
  const std::lock_guard lock(mutex_);
  if (problem) {
    refused_pair_ = std::move(read);
  } else {
    credential_ = std::move(read);
  }
  if (problem) warn_(*problem);
}

// The two files are replaced one after the other; meanwhile they don't fit.
std::optional<std::string> Credentials::problem_of_pair(const Credential& credential) {
  if (const auto problem = problem_of_certificates(credential.certificate_pem))
    return fmt::format("[kube] the client certificate {}: the one before is kept", *problem);
  if (const auto problem = problem_of_key(credential.key_pem, credential.certificate_pem))
    return fmt::format("[kube] the client key {}: the one before is kept", *problem);
  return std::nullopt;
}

void Credentials::run_plugin(const std::function<bool()>& is_due) {
  {
    const std::lock_guard lock(mutex_);
    const bool rests = last_run_ && clock_() - *last_run_ < kPause;
    if (is_running_ || rests || !is_due()) return;
    is_running_ = true;
    last_run_ = clock_();
  }
  std::optional<ExecCredential> fresh;
  std::string problem;
  try {
    fresh = run_exec_plugin(*plugin_);
  } catch (const Error& error) {
    problem = fmt::format("{}: the credential before is kept", error.what());
  }
  {
    const std::lock_guard lock(mutex_);
    is_running_ = false;
    if (fresh) {
      credential_ = std::move(fresh->credential);
      expiry_ = fresh->expiry;
    }
  }
  if (!problem.empty()) warn_(problem);
}

}  // namespace coxswain::kube
