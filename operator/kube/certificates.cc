#include "operator/kube/certificates.h"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <ctime>
#include <memory>
#include <vector>

namespace coxswain::kube {

namespace {

template <auto free_function>
struct Free {
  template <class T>
  void operator()(T* object) const {
    free_function(object);
  }
};
using Bio = std::unique_ptr<BIO, Free<BIO_free_all>>;
using Certificate = std::unique_ptr<X509, Free<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;

Bio reader_of(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

std::string date_of(const ASN1_TIME* time) {
  std::tm parts{};
  if (time == nullptr || ASN1_TIME_to_tm(time, &parts) != 1) return "an unknown date";
  return fmt::format("{:04}-{:02}-{:02}", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday);
}

// Never asks at the terminal for the pass phrase of a key.
int no_pass_phrase(char*, int, int, void*) { return -1; }

std::optional<std::string> problem_of_dates(const X509* certificate) {
  if (X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0)
    return "expired on " + date_of(X509_get0_notAfter(certificate));
  if (X509_cmp_current_time(X509_get0_notBefore(certificate)) > 0)
    return "is not valid before " + date_of(X509_get0_notBefore(certificate));
  return std::nullopt;
}

}  // namespace

std::optional<std::string> problem_of_certificates(const std::string& pem) {
  const Bio reader = reader_of(pem);
  std::optional<std::string> problem = "is no certificate in PEM";
  bool valid = false;
  while (const Certificate certificate{
      PEM_read_bio_X509(reader.get(), nullptr, no_pass_phrase, nullptr)}) {
    problem = problem_of_dates(certificate.get());
    valid = valid || !problem;
  }
  const unsigned long end = ERR_peek_last_error();
  ERR_clear_error();
  // The text ends with "no start line"; anything else is a damaged certificate.
  if (ERR_GET_LIB(end) != ERR_LIB_PEM || ERR_GET_REASON(end) != PEM_R_NO_START_LINE)
    return "holds a damaged certificate";
  return valid ? std::nullopt : problem;
}

std::optional<std::string> problem_of_key(const std::string& key_pem,
                                          const std::string& certificate_pem) {
  const Bio key_reader = reader_of(key_pem);
  const Key key(PEM_read_bio_PrivateKey(key_reader.get(), nullptr, no_pass_phrase, nullptr));
  const Bio certificate_reader = reader_of(certificate_pem);
  const Certificate certificate(
      PEM_read_bio_X509(certificate_reader.get(), nullptr, no_pass_phrase, nullptr));
  std::optional<std::string> problem;
  if (!key) {
    problem = "is no private key in PEM, or needs a pass phrase";
  } else if (!certificate || X509_check_private_key(certificate.get(), key.get()) != 1) {
    problem = "does not match the client certificate";
  }
  ERR_clear_error();
  return problem;
}

std::optional<std::string> decode_base64(const std::string& text) {
  const std::unique_ptr<EVP_ENCODE_CTX, Free<EVP_ENCODE_CTX_free>> context(EVP_ENCODE_CTX_new());
  std::vector<unsigned char> bytes(text.size() + 3);
  EVP_DecodeInit(context.get());
  int size = 0;
  int rest = 0;
  const int result =
      EVP_DecodeUpdate(context.get(), bytes.data(), &size,
                       reinterpret_cast<const unsigned char*>(text.data()),  // as OpenSSL wants it
                       static_cast<int>(text.size()));
  if (result < 0 || EVP_DecodeFinal(context.get(), bytes.data() + size, &rest) != 1) {
    ERR_clear_error();
    return std::nullopt;
  }
  return std::string(bytes.begin(), bytes.begin() + size + rest);
}

}  // namespace coxswain::kube
