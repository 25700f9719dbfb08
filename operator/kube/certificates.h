#pragma once

#include <optional>
#include <string>

// What OpenSSL says about PEM text. Each check answers with what is wrong, for an error message
// that names the place; none: nothing is.
namespace coxswain::kube {

// One or more certificates, one of them still valid at least.
std::optional<std::string> problem_of_certificates(const std::string& pem);

// A private key without a pass phrase that belongs to the first certificate of `certificate_pem`.
std::optional<std::string> problem_of_key(const std::string& key_pem,
                                          const std::string& certificate_pem);

// nullopt: no base64. White space between the digits is allowed.
std::optional<std::string> decode_base64(const std::string& text);

}  // namespace coxswain::kube
