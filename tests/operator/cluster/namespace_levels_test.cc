#include "operator/cluster/namespace_levels.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "operator/kube/client.h"
#include "tests/support/fake_transport.h"

namespace coxswain::test {

namespace {

using cluster::NamespaceLevels;
using job::PodSecurity;
using kube::Json;

constexpr NamespaceLevels::Time kNow{std::chrono::hours(1000)};

kube::Response labelled(const char* level) {
  const Json object = {{"metadata", {{"labels", {{"pod-security.kubernetes.io/enforce", level}}}}}};
  return {.status = 200, .retry_after = {}, .body = object.dump()};
}

kube::ClientOptions tries_once() {
  kube::ClientOptions options;
  options.tries = 1;
  return options;
}

struct Bench {
  FakeTransport transport;
  kube::Client client{transport, tries_once()};
  std::vector<std::string> unread;
  NamespaceLevels levels{client, [this](const std::string& doubt) { unread.push_back(doubt); }};
};

}  // namespace

TEST(NamespaceLevels, are_what_the_label_says_as_admission_reads_it) {
  const std::pair<const char*, std::optional<PodSecurity>> rows[] = {
      {R"({"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}})",
       PodSecurity::kPrivileged},
      {R"({"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"baseline"}}})",
       PodSecurity::kBaseline},
      {R"({"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}})",
       PodSecurity::kRestricted},
      {R"({"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"Privileged"}}})",
       PodSecurity::kRestricted},
      {R"({"metadata":{"labels":{"pod-security.kubernetes.io/warn":"baseline"}}})", std::nullopt},
      {R"({"metadata":{}})", std::nullopt},
      {R"({"metadata":{"labels":[]}})", std::nullopt},
      {"7", std::nullopt},
  };
  for (const auto& [text, level] : rows)
    EXPECT_EQ(cluster::level_of(Json::parse(text)), level) << text;
}

TEST(NamespaceLevels, are_read_again_after_a_while) {
  Bench bench;
  bench.transport.script({labelled("baseline"), labelled("privileged")});
  EXPECT_EQ(bench.levels.find("team", kNow)->level, PodSecurity::kBaseline);
  const auto later = kNow + NamespaceLevels::kKeep;
  EXPECT_EQ(bench.levels.find("team", later - std::chrono::seconds(1))->level,
            PodSecurity::kBaseline);
  EXPECT_EQ(bench.transport.requests().size(), 1U);
  EXPECT_EQ(bench.transport.requests()[0].target, "/api/v1/namespaces/team");
  EXPECT_EQ(bench.levels.find("team", later)->level, PodSecurity::kPrivileged);
}

TEST(NamespaceLevels, one_that_can_not_be_read_has_none_and_says_so) {
  Bench bench;
  bench.transport.script({{.status = 403,
                           .retry_after = {},
                           .body = R"({"kind":"Status","reason":"Forbidden","message":"no"})"}});
  for (int pass = 0; pass < 2; ++pass) {
    const auto answer = bench.levels.find("team", kNow);
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->level, std::nullopt);
    EXPECT_EQ(answer->doubt, "namespace team can't be read: 403 Forbidden: no");
  }
  EXPECT_EQ(bench.unread.size(), 1U) << "told once as long as it is remembered";
}

TEST(NamespaceLevels, are_asked_for_again_where_nobody_answered) {
  Bench bench;
  bench.transport.script({{.status = 503, .retry_after = {}, .body = ""}, labelled("baseline")});
  EXPECT_FALSE(bench.levels.find("team", kNow));
  EXPECT_EQ(bench.levels.find("team", kNow)->level, PodSecurity::kBaseline);
  EXPECT_TRUE(bench.unread.empty());
}

}  // namespace coxswain::test
