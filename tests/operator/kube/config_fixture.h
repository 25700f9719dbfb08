#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "operator/kube/config.h"
#include "tests/operator/kube/certificate_maker.h"
#include "tests/support/test_flags.h"
#include "trainer/contract/error.h"

namespace coxswain::kube {

using test::Identity;

inline std::string base64(const std::string& text) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string encoded;
  for (std::size_t i = 0; i < text.size(); i += 3) {
    std::uint32_t bits = 0;
    for (std::size_t j = 0; j < 3; ++j)
      bits = bits << 8 | (i + j < text.size() ? static_cast<unsigned char>(text[i + j]) : 0u);
    for (std::size_t j = 0; j < 4; ++j)
      encoded += i + j > text.size() ? '=' : kDigits[bits >> (18 - 6 * j) & 63];
  }
  return encoded;
}

class ConfigTest : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& name, const std::string& text) const {
    const std::filesystem::path file = directory_.path() / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
    return file;
  }

  // A kubeconfig whose cluster and user hold these lines (flow style).
  std::filesystem::path kubeconfig(const std::string& cluster, const std::string& user) const {
    return write("config", fmt::format("apiVersion: v1\n"
                                       "kind: Config\n"
                                       "current-context: here\n"
                                       "contexts:\n"
                                       "- name: here\n"
                                       "  context: {{cluster: c, user: u, namespace: team}}\n"
                                       "clusters:\n"
                                       "- name: c\n"
                                       "  cluster: {{{}}}\n"
                                       "users:\n"
                                       "- name: u\n"
                                       "  user: {{{}}}\n",
                                       cluster, user));
  }

  // What read_kubeconfig throws, without the directory; empty: nothing.
  std::string error_of(const std::filesystem::path& file, const ConfigRules& rules = {}) const {
    try {
      (void)read_kubeconfig(file, rules);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadInput);
      std::string text = error.what();
      const std::string prefix = directory_.path().string() + "/";
      for (std::size_t at; (at = text.find(prefix)) != std::string::npos;)
        text.erase(at, prefix.size());
      return text;
    }
    return "";
  }

  test::TemporaryDirectory directory_;
  const Identity ca_ = test::make_certificate({.name = "ca", .is_ca = true});
  const Identity client_ = test::make_certificate({.name = "me"}, &ca_);
};

}  // namespace coxswain::kube
