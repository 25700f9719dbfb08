#include "operator/kube/tls_trust.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <optional>
#include <utility>
#include <vector>

#include "operator/kube/certificates.h"
#include "trainer/contract/error.h"

namespace coxswain::kube {

namespace {

using SharedCertificate = std::shared_ptr<X509>;

std::shared_ptr<BIO> shared_reader(const std::string& text) {
  return {BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free_all};
}

std::vector<SharedCertificate> read_certificates(const std::string& pem) {
  std::vector<SharedCertificate> certificates;
  const auto reader = shared_reader(pem);
  while (X509* certificate = PEM_read_bio_X509(reader.get(), nullptr, nullptr, nullptr))
    certificates.emplace_back(certificate, X509_free);
  ERR_clear_error();
  return certificates;
}

std::shared_ptr<X509_STORE> make_store(const std::string& pem) {
  std::shared_ptr<X509_STORE> store(X509_STORE_new(), X509_STORE_free);
  for (const SharedCertificate& certificate : read_certificates(pem))
    X509_STORE_add_cert(store.get(), certificate.get());
  ERR_clear_error();
  return store;
}

bool is_address(const std::string& host) {
  in6_addr address{};
  return inet_pton(AF_INET, host.c_str(), &address) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

[[noreturn]] void fail(const std::string& what, const std::string& problem) {
  throw Error(ExitCode::kBadInput, fmt::format("[kube] {} {}", what, problem));
}

std::optional<std::string> good_certificates(const std::string& pem) {
  return problem_of_certificates(pem) ? std::nullopt : std::optional(pem);
}

}  // namespace

struct TlsIdentity::Keys {
  std::vector<SharedCertificate> chain;  // our own first
  std::shared_ptr<EVP_PKEY> key;
};

TlsIdentity::TlsIdentity(const Credential& credential) : keys_(std::make_unique<Keys>()) {
  if (credential.certificate_pem.empty()) return;
  if (const auto problem = problem_of_certificates(credential.certificate_pem))
    fail("the client certificate", *problem);
  if (const auto problem = problem_of_key(credential.key_pem, credential.certificate_pem))
    fail("the client key", *problem);
  keys_->chain = read_certificates(credential.certificate_pem);
  keys_->key.reset(
      PEM_read_bio_PrivateKey(shared_reader(credential.key_pem).get(), nullptr, nullptr, nullptr),
      EVP_PKEY_free);
}

TlsIdentity::~TlsIdentity() = default;

void TlsIdentity::apply(SSL_CTX* context) const {
  if (keys_->chain.empty()) return;
  SSL_CTX_use_certificate(context, keys_->chain.front().get());
  for (std::size_t i = 1; i < keys_->chain.size(); ++i)
    SSL_CTX_add1_chain_cert(context, keys_->chain[i].get());
  SSL_CTX_use_PrivateKey(context, keys_->key.get());
}

TlsTrust::TlsTrust(const Config& config, std::string host,
                   std::function<void(const std::string&)> warn)
    : host_(std::move(host)),
      insecure_(config.insecure),
      ca_(config.ca_file, config.ca_pem, good_certificates,
          [warn = std::move(warn), file = config.ca_file.string()] {
            warn(
                fmt::format("[kube] {} is gone or holds no valid certificate: the one before is "
                            "kept",
                            file));
          }) {
  if (config.ca_pem.empty()) return;
  if (const auto problem = problem_of_certificates(config.ca_pem))
    fail("the CA's certificate", *problem);
}

std::shared_ptr<X509_STORE> TlsTrust::current_store() {
  const std::string pem = ca_.text();
  if (pem.empty()) return nullptr;
  const std::lock_guard lock(mutex_);
  if (store_pem_ != pem) {
    store_ = make_store(pem);
    store_pem_ = pem;
  }
  return store_;
}

void TlsTrust::apply(SSL_CTX* context) {
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);  // 34 KiB less for each idle connection
  if (insecure_) return;
  if (const auto store = current_store()) SSL_CTX_set1_cert_store(context, store.get());
  X509_VERIFY_PARAM* rules = SSL_CTX_get0_param(context);
  if (is_address(host_)) {
    X509_VERIFY_PARAM_set1_ip_asc(rules, host_.c_str());
  } else {
    X509_VERIFY_PARAM_set1_host(rules, host_.c_str(), host_.size());
  }
  // A CA file may hold an intermediate certificate, or the server's own: enough for kubectl too.
  X509_VERIFY_PARAM_set_flags(rules, X509_V_FLAG_PARTIAL_CHAIN);
  SSL_CTX_set_cert_verify_callback(context, verify, this);
}

int TlsTrust::verify(X509_STORE_CTX* context, void* trust) {
  // The name is checked with the chain, by apply(); the library would check it once more, against
  // the Host header with its port.
  X509_STORE_CTX_set_verify_cb(context, [](int ok, X509_STORE_CTX*) { return ok; });
  const int result = X509_verify_cert(context);
  auto& self = *static_cast<TlsTrust*>(trust);
  const std::lock_guard lock(self.mutex_);
  self.last_problem_ =
      result == 1 ? "" : X509_verify_cert_error_string(X509_STORE_CTX_get_error(context));
  return result;
}

std::string TlsTrust::last_problem() {
  const std::lock_guard lock(mutex_);
  return last_problem_;
}

}  // namespace coxswain::kube
