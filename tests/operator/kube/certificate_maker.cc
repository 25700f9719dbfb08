#include "tests/operator/kube/certificate_maker.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>

namespace coxswain::test {

namespace {

using Bio = std::shared_ptr<BIO>;
using Key = std::shared_ptr<EVP_PKEY>;
using Certificate = std::shared_ptr<X509>;

Bio writer() { return {BIO_new(BIO_s_mem()), BIO_free_all}; }
Bio reader_of(const std::string& text) {
  return {BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free_all};
}

std::string text_of(const Bio& bio) {
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &bytes);
  return std::string(bytes, static_cast<std::size_t>(size));
}

void add_extension(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const std::shared_ptr<X509_EXTENSION> extension(
      X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()), X509_EXTENSION_free);
  X509_add_ext(certificate, extension.get(), -1);
}

}  // namespace

Identity make_certificate(const CertificateRequest& request, const Identity* issuer) {
  const Key key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const Certificate certificate(X509_new(), X509_free);
  Certificate issuer_certificate = certificate;
  Key issuer_key = key;
  if (issuer != nullptr) {
    issuer_certificate.reset(
        PEM_read_bio_X509(reader_of(issuer->certificate_pem).get(), nullptr, nullptr, nullptr),
        X509_free);
    issuer_key.reset(
        PEM_read_bio_PrivateKey(reader_of(issuer->key_pem).get(), nullptr, nullptr, nullptr),
        EVP_PKEY_free);
  }
  X509* made = certificate.get();
  X509_set_version(made, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(made), 1);
  X509_gmtime_adj(X509_getm_notBefore(made), request.valid_from_seconds);
  X509_gmtime_adj(X509_getm_notAfter(made), request.valid_to_seconds);
  X509_set_pubkey(made, key.get());
  X509_NAME_add_entry_by_txt(X509_get_subject_name(made), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(request.name.c_str()), -1, -1,
                             0);
  X509_set_issuer_name(made, X509_get_subject_name(issuer_certificate.get()));
  add_extension(made, issuer_certificate.get(), NID_basic_constraints,
                request.is_ca ? "critical,CA:TRUE" : "critical,CA:FALSE");
  if (!request.alternative_names.empty())
    add_extension(made, issuer_certificate.get(), NID_subject_alt_name, request.alternative_names);
  X509_sign(made, issuer_key.get(), EVP_sha256());
  const Bio certificate_text = writer();
  PEM_write_bio_X509(certificate_text.get(), made);
  const Bio key_text = writer();
  PEM_write_bio_PrivateKey(key_text.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  return {text_of(certificate_text), text_of(key_text)};
}

}  // namespace coxswain::test
