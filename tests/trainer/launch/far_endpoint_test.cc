#include "trainer/launch/far_endpoint.h"

#include <gtest/gtest.h>

#include <future>

namespace coxswain::launch {
namespace {

constexpr std::chrono::seconds kPatience{60};
constexpr std::size_t kMost = 1 << 20;

std::future<std::optional<std::string>> get(const FarEndpoint& endpoint, const std::string& path) {
  return std::async(std::launch::async, [port = endpoint.port(), path] {
    return contract::http_get("127.0.0.1", port, path, kPatience, kMost);
  });
}

FarEndpoint::Question next_of(FarEndpoint& endpoint) {
  for (;;) {
    contract::wait_readable({endpoint.descriptor()}, kPatience);
    if (auto question = endpoint.next()) return *question;
  }
}

TEST(FarEndpoint, gives_the_answer_that_came_to_the_question) {
  FarEndpoint endpoint;
  auto body = get(endpoint, "/ranks/64");
  const auto question = next_of(endpoint);
  EXPECT_EQ(question.path, "/ranks/64");
  EXPECT_FALSE(endpoint.next()) << "told once";
  endpoint.answer(question.number - 1, "of an earlier one");
  endpoint.answer(question.number, "{}");
  EXPECT_EQ(body.get(), "{}");
}

TEST(FarEndpoint, says_nothing_where_the_rank_does_not) {
  FarEndpoint endpoint;
  auto body = get(endpoint, "/progress");
  endpoint.answer(next_of(endpoint).number, "");
  EXPECT_EQ(body.get(), std::nullopt);
}

TEST(FarEndpoint, closes_while_a_question_waits) {
  std::future<std::optional<std::string>> body;
  {
    FarEndpoint endpoint;
    body = get(endpoint, "/progress");
    next_of(endpoint);
  }
  EXPECT_EQ(body.get(), std::nullopt);
}

}  // namespace
}  // namespace coxswain::launch
