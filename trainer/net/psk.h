#pragma once

#include <string>

#include <openssl/ssl.h>

namespace coxswain::net {

// Value. What the processes of a job know and nobody else does.
struct PresharedKey {
  std::string identity;  // names the key, in clear: the job
  std::string secret;    // 32 bytes
};

// Makes of `context` one of TLS 1.3 in which both sides prove that they hold the key (RFC 8446,
// section 4.2.11, with an ephemeral exchange), and nothing else: no certificates, no resumption.
// `key` outlives the context. Throws Error(70).
void use_preshared_key(SSL_CTX* context, const PresharedKey& key);

}  // namespace coxswain::net
