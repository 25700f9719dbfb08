#include "operator/cluster/keys.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "operator/cluster/base64.h"
#include "tests/support/test_flags.h"

namespace coxswain::test {

namespace {

std::string output_of(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  std::string text;
  std::array<char, 1024> buffer;
  while (pipe && fgets(buffer.data(), buffer.size(), pipe)) text += buffer.data();
  EXPECT_TRUE(pipe && pclose(pipe) == 0) << command;
  return text;
}

// The public half of a private key, as OpenSSH reads it.
std::string public_half(const std::filesystem::path& directory, const std::string& key) {
  const std::filesystem::path file = directory / "key";
  std::ofstream(file) << key;
  std::filesystem::permissions(
      file, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  const std::string line = output_of("ssh-keygen -y -f " + file.string());
  std::filesystem::remove(file);
  return line.substr(0, line.find_last_not_of("\n") + 1);
}

}  // namespace

TEST(Keys, are_keys_that_openssh_reads) {
  if (access("/usr/bin/ssh-keygen", X_OK) != 0) GTEST_SKIP() << "openssh-client is not installed";
  const TemporaryDirectory directory;
  const cluster::JobKeys keys = cluster::make_keys("mnist", "team");
  EXPECT_EQ(public_half(directory.path(), keys.client_key) + "\n", keys.authorized_key);
  EXPECT_EQ("[*.mnist.team.svc]:* " + public_half(directory.path(), keys.host_key) + "\n",
            keys.known_hosts);
  EXPECT_TRUE(keys.client_key.starts_with("-----BEGIN PRIVATE KEY-----\n"));
  EXPECT_TRUE(keys.authorized_key.starts_with("ecdsa-sha2-nistp256 AAAA"));
}

// On the host's network each attempt has its own port.
TEST(Keys, are_those_of_the_jobs_own_hosts_on_any_port) {
  if (access("/usr/bin/ssh-keygen", X_OK) != 0) GTEST_SKIP() << "openssh-client is not installed";
  const TemporaryDirectory directory;
  const std::filesystem::path file = directory.path() / "known_hosts";
  std::ofstream(file) << cluster::make_keys("mnist", "team").known_hosts;
  const auto knows = [&](const char* host) {
    return !output_of(fmt::format("ssh-keygen -F '{}' -f {} || true", host, file.string())).empty();
  };
  EXPECT_TRUE(knows("[mnist-worker-3.mnist.team.svc]:2222"));
  EXPECT_TRUE(knows("[mnist-worker-3.mnist.team.svc]:20040"));
  EXPECT_FALSE(knows("[mnist-worker-3.other.team.svc]:20040"));
}

TEST(Keys, are_new_ones_each_time) {
  const cluster::JobKeys first = cluster::make_keys("mnist", "team");
  const cluster::JobKeys second = cluster::make_keys("mnist", "team");
  EXPECT_NE(first.client_key, second.client_key);
  EXPECT_NE(first.host_key, second.host_key);
  EXPECT_NE(first.server_key, second.server_key);
  EXPECT_NE(first.client_key, first.host_key);
  EXPECT_EQ(first.server_key.size(), 64U);
  EXPECT_EQ(first.server_key.find_first_not_of("0123456789abcdef"), std::string::npos);
}

// RFC 4648 section 10.
TEST(Base64, encodes_groups_of_every_length) {
  const std::pair<const char*, const char*> rows[] = {{"", ""},
                                                      {"f", "Zg=="},
                                                      {"fo", "Zm8="},
                                                      {"foo", "Zm9v"},
                                                      {"foob", "Zm9vYg=="},
                                                      {"fooba", "Zm9vYmE="},
                                                      {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : rows) EXPECT_EQ(cluster::base64(bytes), text);
  EXPECT_EQ(cluster::base64("\xff\xfe\x80"), "//6A");
}

// Nobody can have made the Secret of a job before the job's operator did.
TEST(Keys, the_name_of_their_secret_is_drawn) {
  const std::string name = cluster::draw_secret_name("mnist");
  EXPECT_TRUE(name.starts_with("mnist-keys-")) << name;
  EXPECT_EQ(name.find_first_not_of("0123456789abcdef", 11), std::string::npos) << name;
  EXPECT_EQ(name.size(), 27u);
  EXPECT_NE(name, cluster::draw_secret_name("mnist"));
}

}  // namespace coxswain::test
