#include "trainer/launch/ssh_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/contract/error.h"

namespace coxswain::launch {
namespace {

using ::testing::HasSubstr;

TEST(WordsOfCommand, are_what_a_shell_would_make_of_a_plain_command) {
  const struct {
    const char* line;
    std::vector<std::string> words;
  } cases[] = {
      {"", {}},
      {"ready", {"ready"}},
      {"  orted   -mca a b ", {"orted", "-mca", "a", "b"}},
      {R"(orted -mca ess "env" "")", {"orted", "-mca", "ess", "env", ""}},
      {R"(orted --uri "1.0;tcp://10.0.0.1:4711" 'x y')",
       {"orted", "--uri", "1.0;tcp://10.0.0.1:4711", "x y"}},
      {R"(orted a\ b "c\"d\\e")", {"orted", "a b", R"(c"d\e)"}},
      {"( test ! -r ./.profile || . ./.profile;  orted -mca a \"b\" )",
       {"orted", "-mca", "a", "b"}},
  };
  for (const auto& c : cases) EXPECT_EQ(words_of_command(c.line), c.words) << c.line;
}

TEST(WordsOfCommand, refuse_whatever_a_shell_would_do_more) {
  for (const char* line :
       {"orted; rm -rf /", "orted | sh", "orted & sh", "orted > file", "orted $(sh)", "orted `sh`",
        "orted \"$(sh)\"", "orted \"`sh`\"", "orted *", "orted\nsh", "orted \"open", "orted \\",
        "( orted )", "( test ! -r ./.profile || . ./.profile; orted ) ; sh"}) {
    EXPECT_THROW(words_of_command(line), Error) << line;
  }
}

TEST(SshFiles, let_nobody_in_without_the_jobs_keys_and_give_no_shell) {
  const SshSettings settings{
      .keys = "/keys", .directory = "/run", .trainer = "/usr/bin/coxswain-trainer", .attempt = 3};
  for (const char* line :
       {"Port 2222\n", "HostKey /keys/ssh_host_ecdsa_key\n", "UsePAM no\n", "PermitTTY no\n",
        "AuthorizedKeysFile /keys/authorized_keys\n", "PasswordAuthentication no\n",
        "ForceCommand /usr/bin/coxswain-trainer remote\n", "DisableForwarding yes\n"})
    EXPECT_THAT(sshd_config(settings), HasSubstr(line));
  for (const char* line :
       {"Port 2222\n", "StrictHostKeyChecking yes\n", "BatchMode yes\n",
        "UserKnownHostsFile /keys/known_hosts\n", "IdentityFile /keys/id_ecdsa\n",
        "GlobalKnownHostsFile /dev/null\n", "SetEnv COXSWAIN_PEER_ATTEMPT=3\n"})
    EXPECT_THAT(ssh_config(settings), HasSubstr(line));
}

TEST(SshFiles, meet_on_the_attempts_own_port) {
  SshSettings settings;
  settings.port = 20040;
  EXPECT_THAT(sshd_config(settings), HasSubstr("Port 20040\n"));
  EXPECT_THAT(ssh_config(settings), HasSubstr("Port 20040\n"));
}

}  // namespace
}  // namespace coxswain::launch
