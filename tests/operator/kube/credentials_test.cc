#include "operator/kube/credentials.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/operator/kube/certificate_maker.h"
#include "tests/support/test_flags.h"

namespace coxswain::kube {
namespace {

using std::chrono::seconds;
using test::Identity;
using Time = std::chrono::system_clock::time_point;

const Time kNoon = Time(seconds(1'790'000'000));

class CredentialsTest : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& name, const std::string& text) const {
    const auto file = directory_.path() / name;
    std::ofstream(file) << text;
    return file;
  }

  Credentials credentials() {
    return Credentials(
        config_, [this](const std::string& text) { warnings_.push_back(text); },
        [this] { return now_; },
        [this] { return std::chrono::steady_clock::time_point(now_ - kNoon); });
  }

  // Gives token-1, token-2 and so on, or what the file `answer` holds beside them.
  void use_plugin() {
    write("runs", "0");
    write("answer", "");
    const auto program = write(
        "login",
        "#!/bin/sh\n"
        "cd $(dirname $0)\n"
        "n=$(($(cat runs) + 1))\n"
        "echo $n >runs\n"
        "test ! -e broken || exit 1\n"
        "echo '{\"apiVersion\":\"v1\",\"kind\":\"ExecCredential\",\"status\":{'\"$(cat answer)\""
        "'\"token\":\"token-'$n'\"}}'\n");
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    config_.exec = ExecPlugin{"v1", {program.string()}, {}};
    config_.token = "token-0";
  }

  test::TemporaryDirectory directory_;
  Config config_;
  Time now_ = kNoon;
  std::vector<std::string> warnings_;
};

TEST_F(CredentialsTest, a_plug_in_runs_again_before_its_answer_expires) {
  use_plugin();
  config_.exec_expiry = kNoon + seconds(100);
  write("answer", R"("expirationTimestamp":"2026-09-21T14:30:00+00:00",)");  // 1,000 s after noon
  Credentials credentials = this->credentials();
  now_ += seconds(69);
  EXPECT_EQ(credentials.now().token, "token-0");
  now_ += seconds(1);
  EXPECT_EQ(credentials.now().token, "token-1");
  now_ = kNoon + seconds(969);
  EXPECT_EQ(credentials.now().token, "token-1");
  now_ += seconds(1);
  EXPECT_EQ(credentials.now().token, "token-2");
}

TEST_F(CredentialsTest, a_plug_in_runs_again_after_a_refusal_and_not_too_often) {
  use_plugin();
  Credentials credentials = this->credentials();
  const Credential first = credentials.now();
  EXPECT_TRUE(credentials.renew(first));
  EXPECT_EQ(credentials.now().token, "token-1");
  EXPECT_TRUE(credentials.renew(first)) << "another thread had the old one";
  EXPECT_FALSE(credentials.renew(credentials.now())) << "it has just been asked";
  EXPECT_EQ(credentials.now().token, "token-1");
  now_ += Credentials::kPause;
  EXPECT_TRUE(credentials.renew(credentials.now()));
  EXPECT_EQ(credentials.now().token, "token-2");
}

TEST_F(CredentialsTest, a_plug_in_that_fails_leaves_what_it_gave_before) {
  use_plugin();
  write("broken", "");
  Credentials credentials = this->credentials();
  EXPECT_FALSE(credentials.renew(credentials.now()));
  EXPECT_EQ(credentials.now().token, "token-0");
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find("ended with exit code 1: the credential before is kept"),
            std::string::npos)
      << warnings_[0];
}

TEST_F(CredentialsTest, certificate_files_are_read_anew_once_they_fit) {
  const Identity one = test::make_certificate({.name = "one"});
  const Identity two = test::make_certificate({.name = "two"});
  config_.client_certificate_pem = one.certificate_pem;
  config_.client_key_pem = one.key_pem;
  config_.client_certificate_file = write("tls.crt", one.certificate_pem);
  config_.client_key_file = write("tls.key", one.key_pem);
  Credentials credentials = this->credentials();
  const auto later = [&] {
    now_ += WatchedFile::kInterval;
    return credentials.now().certificate_pem;
  };
  EXPECT_EQ(later(), one.certificate_pem);
  write("tls.crt", two.certificate_pem);
  EXPECT_EQ(later(), one.certificate_pem);
  EXPECT_EQ(later(), one.certificate_pem);
  EXPECT_EQ(warnings_, (std::vector<std::string>{"[kube] the client key does not match the client "
                                                 "certificate: the one before is kept"}));
  write("tls.key", two.key_pem);
  EXPECT_EQ(later(), two.certificate_pem);
  EXPECT_EQ(credentials.now().key_pem, two.key_pem);
  write("tls.crt", "garbage");
  EXPECT_EQ(later(), two.certificate_pem);
  EXPECT_EQ(warnings_.size(), 2u);
}

TEST_F(CredentialsTest, without_files_or_a_plug_in_nothing_changes) {
  config_.token = "fixed";
  Credentials credentials = this->credentials();
  EXPECT_EQ(credentials.now().token, "fixed");
  EXPECT_FALSE(credentials.renew(credentials.now()));
}

}  // namespace
}  // namespace coxswain::kube
