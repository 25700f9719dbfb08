#include <gtest/gtest.h>

#include <string>

#include "operator/kube/certificates.h"
#include "operator/kube/watched_file.h"
#include "tests/operator/kube/config_fixture.h"

// What a pod is given, and files of it that are replaced while it runs.
namespace coxswain::kube {
namespace {

class InClusterTest : public ConfigTest {
 protected:
  std::string error(const std::string& host = "10.96.0.1") const {
    try {
      (void)in_cluster_config(host, "443", directory_.path());
    } catch (const Error& thrown) {
      std::string text = thrown.what();
      const std::size_t at = text.find(directory_.path().string());
      return at == std::string::npos ? text
                                     : text.replace(at, directory_.path().string().size(), "DIR");
    }
    return "";
  }
};

TEST_F(InClusterTest, reads_the_service_account) {
  write("token", "s3cret\n");
  write("ca.crt", ca_.certificate_pem);
  write("namespace", "team\n");
  const auto config = in_cluster_config("10.96.0.1", "443", directory_.path());
  ASSERT_TRUE(config);
  EXPECT_EQ(config->server, "https://10.96.0.1:443");
  EXPECT_EQ(config->ca_pem, ca_.certificate_pem);
  EXPECT_EQ(config->ca_file, directory_.path() / "ca.crt");
  EXPECT_EQ(config->token_file, directory_.path() / "token");
  EXPECT_EQ(config->name_space, "team");
  EXPECT_EQ(in_cluster_config("fd00::1", "443", directory_.path())->server,
            "https://[fd00::1]:443");
}

TEST_F(InClusterTest, is_none_outside_a_pod) {
  EXPECT_FALSE(in_cluster_config("", "", directory_.path()));
  EXPECT_FALSE(in_cluster_config("10.96.0.1", "", directory_.path()));
}

TEST_F(InClusterTest, says_what_is_missing) {
  const std::string no_token =
      "[kube] DIR: token: no token of a ServiceAccount: does the pod have "
      "automountServiceAccountToken: false?";
  EXPECT_EQ(error(), no_token);
  write("token", " \n");
  EXPECT_EQ(error(), no_token);
  write("token", "s3cret");
  EXPECT_EQ(error(), "[kube] DIR: ca.crt: can't be read");
  write("ca.crt", "garbage");
  EXPECT_EQ(error(), "[kube] DIR: ca.crt: is no certificate in PEM");
  EXPECT_EQ(error("a b"),
            "[kube] KUBERNETES_SERVICE_HOST and _PORT: unsupported URL: no valid "
            "host in it: write https://host:port");
}

class WatchedFileTest : public ConfigTest {
 protected:
  WatchedFile watched(const std::string& text) {
    return WatchedFile(
        directory_.path() / "token", text,
        [](const std::string& bytes) {
          return is_token(trimmed(bytes)) ? std::optional(trimmed(bytes)) : std::nullopt;
        },
        [this] { ++num_warnings_; }, [this] { return now_; });
  }

  std::chrono::steady_clock::time_point now_{};
  int num_warnings_ = 0;
};

TEST_F(WatchedFileTest, is_read_anew_after_ten_seconds) {
  write("token", "one");
  WatchedFile file = watched("");
  EXPECT_EQ(file.text(), "one");
  write("token", "two\n");
  now_ += std::chrono::milliseconds(9'999);
  EXPECT_EQ(file.text(), "one");
  now_ += std::chrono::milliseconds(1);
  EXPECT_EQ(file.text(), "two");
}

TEST_F(WatchedFileTest, keeps_the_last_good_text_and_warns_once) {
  write("token", "one");
  WatchedFile file = watched("");
  EXPECT_EQ(file.text(), "one");
  const auto next = [&] {
    now_ += WatchedFile::kInterval;
    return file.text();
  };
  for (const std::string& garbage : {std::string(), std::string("two words"),
                                     std::string("a\0b", 3), std::string(65'537, 'x')}) {
    write("token", garbage);
    EXPECT_EQ(next(), "one");
  }
  std::filesystem::remove(directory_.path() / "token");
  EXPECT_EQ(next(), "one");
  std::filesystem::create_directory(directory_.path() / "token");
  EXPECT_EQ(next(), "one");
  EXPECT_EQ(num_warnings_, 1);
  std::filesystem::remove(directory_.path() / "token");
  write("token", "two");
  EXPECT_EQ(next(), "two");
  std::filesystem::remove(directory_.path() / "token");
  EXPECT_EQ(next(), "two");
  EXPECT_EQ(num_warnings_, 2);
}

TEST_F(WatchedFileTest, a_ca_replaced_by_garbage_is_kept) {
  const auto file = write("ca.crt", ca_.certificate_pem);
  WatchedFile watched(
      file, ca_.certificate_pem,
      [](const std::string& pem) {
        return problem_of_certificates(pem) ? std::nullopt : std::optional(pem);
      },
      [this] { ++num_warnings_; }, [this] { return now_; });
  EXPECT_EQ(watched.text(), ca_.certificate_pem);
  write("ca.crt", "garbage");
  now_ += WatchedFile::kInterval;
  EXPECT_EQ(watched.text(), ca_.certificate_pem);
  EXPECT_EQ(num_warnings_, 1);
  const Identity next = test::make_certificate({.is_ca = true});
  write("ca.crt", next.certificate_pem);
  now_ += WatchedFile::kInterval;
  EXPECT_EQ(watched.text(), next.certificate_pem);
}

TEST(Base64, reads_what_is_base64_and_nothing_else) {
  for (const char* text : {"", "a", "ab", "abc", "abcd"})
    EXPECT_EQ(decode_base64(base64(text)), text);
  EXPECT_EQ(decode_base64("YWJj\nZGVm\n"), "abcdef");
  for (const char* text : {"a", "ab", "abc", "a===", "****", "YWJj*"})
    EXPECT_EQ(decode_base64(text), std::nullopt) << text;
}

}  // namespace
}  // namespace coxswain::kube
