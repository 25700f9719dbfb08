#pragma once

#include <openssl/ssl.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "operator/kube/config.h"
#include "operator/kube/watched_file.h"

namespace coxswain::kube {

// Resource. Who a TLS connection says we are: a certificate with its chain and key, or nobody.
// Throws Error in the constructor for PEM text that can't be used.
class TlsIdentity {
 public:
  explicit TlsIdentity(const Credential& credential);
  ~TlsIdentity();

  void apply(SSL_CTX* context) const;

 private:
  struct Keys;
  const std::unique_ptr<Keys> keys_;
};

// Resource. Whom a TLS connection trusts. Must outlive the connections that it was applied to.
// Thread-safe. Throws Error in the constructor for PEM text that can't be used.
class TlsTrust {
 public:
  // `host`: whom the server's certificate must name, an IPv6 address without brackets. `warn` is
  // told of a CA file that became garbage; the certificates before stay in force.
  TlsTrust(const Config& config, std::string host, std::function<void(const std::string&)> warn);

  // Makes the next connection of `context`: TLS 1.2 or later, our CA alone if there is one, the
  // server's name checked.
  void apply(SSL_CTX* context);

  // Why the last certificate of a server was refused; empty: none was.
  std::string last_problem();

 private:
  static int verify(X509_STORE_CTX* context, void* trust);
  std::shared_ptr<X509_STORE> current_store();

  const std::string host_;
  const bool insecure_;
  WatchedFile ca_;
  std::mutex mutex_;
  // Guarded by mutex_:
  std::string store_pem_;  // what store_ was made of
  std::shared_ptr<X509_STORE> store_;
  std::string last_problem_;
};

}  // namespace coxswain::kube
