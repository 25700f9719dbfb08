#include "operator/cluster/keys.h"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>

#include <array>
#include <memory>
#include <string_view>

#include "operator/cluster/base64.h"
#include "trainer/contract/error.h"

namespace coxswain::cluster {

namespace {

using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Memory = std::unique_ptr<BIO, decltype(&BIO_free)>;

constexpr std::size_t kServerKeyBytes = 32;

void check(bool ok, const char* what) {
  if (!ok) throw Error(ExitCode::kInternal, fmt::format("[keys] can't {}", what));
}

Key make_key() {
  Key key(EVP_EC_gen("P-256"), &EVP_PKEY_free);
  check(key != nullptr, "make a key: the random device fails");
  return key;
}

// PKCS#8, which OpenSSH reads too.
std::string private_pem(const Key& key) {
  const Memory memory(BIO_new(BIO_s_mem()), &BIO_free);
  check(memory != nullptr, "write a key");
  check(PEM_write_bio_PKCS8PrivateKey(memory.get(), key.get(), nullptr, nullptr, 0, nullptr,
                                      nullptr) == 1,
        "write a key");
  char* text = nullptr;
  const long size = BIO_get_mem_data(memory.get(), &text);
  return {text, static_cast<std::size_t>(size)};
}

// A string of the SSH protocol (RFC 4251 section 5): its length in four bytes, then its bytes.
void append_string(std::string& blob, std::string_view text) {
  for (int shift = 24; shift >= 0; shift -= 8)
    blob += static_cast<char>(text.size() >> shift & 255);
  blob += text;
}

// "ecdsa-sha2-nistp256 AAAA..." (RFC 5656 section 3.1).
std::string public_line(const Key& key) {
  unsigned char* point = nullptr;
  const std::size_t size = EVP_PKEY_get1_encoded_public_key(key.get(), &point);
  const std::unique_ptr<unsigned char, void (*)(unsigned char*)> owner(
      point, [](unsigned char* bytes) { OPENSSL_free(bytes); });
  check(size > 0, "write a public key");
  std::string blob;
  append_string(blob, "ecdsa-sha2-nistp256");
  append_string(blob, "nistp256");
  append_string(blob, {reinterpret_cast<const char*>(point), size});
  return "ecdsa-sha2-nistp256 " + base64(blob);
}

template <std::size_t kBytes>
std::string random_hex() {
  std::array<unsigned char, kBytes> bytes{};
  check(RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1,
        "draw random bytes: the random device fails");
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

}  // namespace

std::string draw_secret_name(const std::string& job) {
  return fmt::format("{}-keys-{}", job, random_hex<8>());
}

std::string make_server_key() { return random_hex<kServerKeyBytes>(); }

JobKeys make_keys(const std::string& job, const std::string& name_space) {
  const Key client = make_key();
  const Key host = make_key();
  JobKeys keys;
  keys.client_key = private_pem(client);
  keys.authorized_key = public_line(client) + "\n";
  keys.host_key = private_pem(host);
  // One host key for the job: a pattern covers every worker's name, and every attempt's port.
  keys.known_hosts = fmt::format("[*.{}.{}.svc]:* {}\n", job, name_space, public_line(host));
  keys.server_key = make_server_key();
  return keys;
}

}  // namespace coxswain::cluster
