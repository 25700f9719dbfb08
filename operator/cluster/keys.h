#pragma once

#include <string>

namespace coxswain::cluster {

// Value. The secrets of one job, as files of its Secret. Made once, given to the API server, and
// never read back; no plan, log or event holds their bytes.
struct JobKeys {
  std::string client_key;      // ECDSA P-256, PKCS#8 PEM: mpirun's ssh
  std::string authorized_key;  // its public half, one OpenSSH line without options
  std::string host_key;        // of every worker's sshd, the same form
  std::string known_hosts;     // "[*.<job>.<ns>.svc]:2222 ecdsa-sha2-nistp256 ..."
  std::string server_key;      // 32 random bytes, hex: the parameter server's
};

// "<job>-keys-<16 random hex digits>": too many for anybody to foresee one, or to take them all.
// Throws Error when the random device fails.
std::string draw_secret_name(const std::string& job);

// Throws Error when the random device fails.
std::string make_server_key();
JobKeys make_keys(const std::string& job, const std::string& name_space);

}  // namespace coxswain::cluster
