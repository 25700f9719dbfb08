#pragma once

#include <string>

namespace coxswain::test {

// Value. A certificate and its key, in PEM.
struct Identity {
  std::string certificate_pem;
  std::string key_pem;
};

// Value. What a certificate shall say.
struct CertificateRequest {
  std::string name = "server";
  std::string alternative_names = "IP:127.0.0.1,DNS:localhost";  // empty: none
  bool is_ca = false;
  int valid_from_seconds = -3600;  // from now
  int valid_to_seconds = 3600;
};

// Signed by `issuer`, or by itself.
Identity make_certificate(const CertificateRequest& request, const Identity* issuer = nullptr);

}  // namespace coxswain::test
