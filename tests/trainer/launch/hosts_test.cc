#include "trainer/launch/hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <fstream>

#include "tests/support/test_flags.h"
#include "trainer/contract/error.h"

namespace coxswain::launch {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// In place of ssh: a host answers once there is a file of its name.
constexpr const char* kFakeSsh = R"sh(#!/bin/sh
test "$1" = -F && test "$6" = ready || exit 2
test -e "$2.$5" && exit 0
test "$5" = late && touch "$2.late"
test "$5" = silent && exit 255
if test "$5" = nameless; then
  echo . >> "$2.asked"
  test "$(wc -l < "$2.asked")" -gt 3 && exit 0
  echo "ssh: Could not resolve hostname nameless: Name or service not known" >&2
  exit 255
fi
echo "banner" >&2
echo "ssh: connect to host $5 port 2222: Connection refused" >&2
exit 255
)sh";

class Hosts : public ::testing::Test {
 protected:
  Hosts() : path_before_(std::getenv("PATH")) {
    const auto ssh = directory_.path() / "ssh";
    std::ofstream(ssh) << kFakeSsh;
    std::filesystem::permissions(ssh, std::filesystem::perms::owner_all);
    setenv("PATH", (directory_.path().string() + ":" + path_before_).c_str(), 1);
  }
  ~Hosts() override { setenv("PATH", path_before_.c_str(), 1); }

  void answers(const std::string& host) { std::ofstream(config_.string() + "." + host); }

  bool wait(const std::vector<std::string>& hosts, std::chrono::milliseconds deadline) {
    return wait_for_hosts(hosts, config_, {.deadline = deadline}, signals_, each_turn_);
  }

  test::TemporaryDirectory directory_;
  std::filesystem::path config_ = directory_.path() / "config";
  std::string path_before_;
  contract::SignalQueue signals_{std::vector<int>{SIGTERM}};
  std::function<void()> each_turn_ = [] {};
};

TEST_F(Hosts, are_waited_for_until_each_answers) {
  answers("a");
  EXPECT_TRUE(wait({"a", "late"}, 20s));
}

TEST_F(Hosts, that_do_not_answer_are_named_with_the_last_words) {
  answers("a");
  try {
    wait({"a", "b", "silent"}, 1s);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kPeersMissing);
    EXPECT_THAT(error.what(), HasSubstr("did not answer over SSH in 1 s: b (ssh: connect to host b "
                                        "port 2222: Connection refused), silent (no answer)"));
  }
}

TEST_F(Hosts, without_an_address_cost_no_time) {
  answers("a");
  EXPECT_TRUE(wait({"a", "nameless"}, 600ms));  // it gets one after 100 + 200 + 400 ms
}

TEST_F(Hosts, are_waited_for_no_longer_when_a_turn_fails) {
  each_turn_ = [] { throw Error(ExitCode::kInternal, "sshd ended"); };
  EXPECT_THROW(wait({"b"}, 20s), Error);
}

TEST_F(Hosts, are_not_all_named_when_there_are_many) {
  try {
    wait({"b", "c", "d", "e", "f", "g"}, 1s);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("e ("));
    EXPECT_THAT(error.what(), HasSubstr(" and 2 more"));
  }
}

TEST_F(Hosts, are_no_longer_waited_for_after_SIGTERM) {
  raise(SIGTERM);
  EXPECT_FALSE(wait({"b"}, 20s));
}

TEST_F(Hosts, are_the_first_words_of_the_hostfile) {
  const auto file = directory_.path() / "hostfile";
  std::ofstream(file) << "a.b.c.svc slots=2\n\n# none\nd.b.c.svc slots=2\n";
  EXPECT_THAT(read_hostfile(file, 2), ElementsAre("a.b.c.svc", "d.b.c.svc"));
  EXPECT_THROW(read_hostfile(file, 1), Error);
  EXPECT_THROW(read_hostfile(file, 3), Error);
  EXPECT_THROW(read_hostfile(directory_.path() / "none", 1), Error);
}

}  // namespace
}  // namespace coxswain::launch
