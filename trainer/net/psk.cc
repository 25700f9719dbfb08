#include "trainer/net/psk.h"

#include <openssl/err.h>

#include <array>
#include <memory>
#include <string_view>

#include "trainer/contract/error.h"

namespace coxswain::net {

namespace {

constexpr std::size_t kSecretBytes = 32;
constexpr const char* kCipher = "TLS_AES_128_GCM_SHA256";
constexpr std::array<unsigned char, 2> kCipherId = {0x13, 0x01};

// Where a context keeps its key; what is called its application data is Asio's.
int key_index() {
  static const int index = SSL_CTX_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return index;
}

const PresharedKey& key_of(SSL* ssl) {
  return *static_cast<const PresharedKey*>(SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), key_index()));
}

// The key in the form in which OpenSSL takes one from outside: as an old session. Null: no memory.
SSL_SESSION* session_of(SSL* ssl) {
  const PresharedKey& key = key_of(ssl);
  std::unique_ptr<SSL_SESSION, decltype(&SSL_SESSION_free)> session(SSL_SESSION_new(),
                                                                    SSL_SESSION_free);
  const auto* secret = reinterpret_cast<const unsigned char*>(key.secret.data());
  const SSL_CIPHER* cipher = SSL_CIPHER_find(ssl, kCipherId.data());
  if (!session || cipher == nullptr ||
      SSL_SESSION_set1_master_key(session.get(), secret, key.secret.size()) != 1 ||
      SSL_SESSION_set_cipher(session.get(), cipher) != 1 ||
      SSL_SESSION_set_protocol_version(session.get(), TLS1_3_VERSION) != 1)
    return nullptr;
  return session.release();
}

int offer_key(SSL* ssl, const EVP_MD* digest, const unsigned char** identity, std::size_t* length,
              SSL_SESSION** session) {
  *session = nullptr;
  if (digest != nullptr && EVP_MD_get_type(digest) != NID_sha256) return 1;  // not with this key
  *session = session_of(ssl);
  const PresharedKey& key = key_of(ssl);
  *identity = reinterpret_cast<const unsigned char*>(key.identity.data());
  *length = key.identity.size();
  return *session != nullptr ? 1 : 0;
}

int find_key(SSL* ssl, const unsigned char* identity, std::size_t length, SSL_SESSION** session) {
  *session = nullptr;  // and without a certificate the handshake ends there
  const std::string_view asked(reinterpret_cast<const char*>(identity), length);
  if (asked != key_of(ssl).identity) return 1;
  *session = session_of(ssl);
  return *session != nullptr ? 1 : 0;
}

}  // namespace

void use_preshared_key(SSL_CTX* context, const PresharedKey& key) {
  ERR_clear_error();
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_psk_use_session_callback(context, offer_key);
  SSL_CTX_set_psk_find_session_callback(context, find_key);
  if (key.secret.size() != kSecretBytes ||
      SSL_CTX_set_ex_data(context, key_index(), const_cast<PresharedKey*>(&key)) != 1 ||
      SSL_CTX_set_num_tickets(context, 0) != 1 ||
      SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(context, kCipher) != 1)
    throw Error(ExitCode::kInternal, "[net] this OpenSSL can't use a pre-shared key with TLS 1.3");
}

}  // namespace coxswain::net
