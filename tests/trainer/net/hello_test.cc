#include "trainer/net/hello.h"

#include <gtest/gtest.h>

#include <functional>

namespace coxswain::net {
namespace {

Hello worker(int rank) {
  Hello hello;
  hello.job = "uid-1";
  hello.attempt = 2;
  hello.role = "worker";
  hello.rank = rank;
  hello.world_size = 4;
  hello.fingerprint = "a1";
  return hello;
}

TEST(Hello, comes_back_as_it_was) {
  Hello hello = worker(3);
  hello.incarnation = 5;
  EXPECT_EQ(hello_of(to_json(hello)), hello);
}

TEST(Hello, is_refused_when_it_is_none) {
  for (const char* text : {"", "{", "[]", "null", R"({"oldestProtocol":1})",
                           R"({"newestProtocol":1})", R"({"oldestProtocol":2,"newestProtocol":1})",
                           R"({"oldestProtocol":1,"newestProtocol":1,"rank":-1})",
                           R"({"oldestProtocol":1,"newestProtocol":1,"rank":"0"})",
                           R"({"oldestProtocol":1,"newestProtocol":1,"attempt":-1})",
                           R"({"oldestProtocol":1,"newestProtocol":1,"worldSize":0})",
                           R"({"oldestProtocol":1,"newestProtocol":1,"worldSize":99999999999})"})
    EXPECT_EQ(hello_of(text), std::nullopt) << text;
  EXPECT_NE(hello_of(R"({"oldestProtocol":1,"newestProtocol":1})"), std::nullopt);
  EXPECT_EQ(hello_of(std::string(5000, ' ') + to_json(worker(0))), std::nullopt);
}

TEST(Hello, may_come_in_when_all_that_must_be_alike_is) {
  EXPECT_EQ(judge(worker(0), worker(3)), std::nullopt);
  Hello newer = worker(1);
  newer.newest_protocol = kNewestProtocol + 1;
  newer.incarnation = 9;
  EXPECT_EQ(judge(worker(0), newer), std::nullopt);
  EXPECT_EQ(common_protocol(worker(0), newer), kNewestProtocol);
}

struct Case {
  std::function<void(Hello&)> change;
  std::string why;
  ExitCode code = ExitCode::kBadInput;
};

TEST(Hello, is_told_why_it_may_not_and_by_whom) {
  const Case cases[] = {
      {[](Hello& h) { h.job = "uid-2\n"; }, "the job differs, uid-1 here and uid-2\\n there"},
      {[](Hello& h) { h.attempt = 1; }, "a newer attempt has taken its place", ExitCode::kPeerLost},
      {[](Hello& h) { h.attempt = 3; }, "it is about to be replaced itself",
       ExitCode::kPeersMissing},
      {[](Hello& h) { h.oldest_protocol = h.newest_protocol = 7; },
       "it speaks versions 7 to 7 of the protocol, not 1 to 1"},
      {[](Hello& h) { h.world_size = 8; }, "the number of ranks differs, 4 here and 8 there"},
      {[](Hello& h) { h.fingerprint = "b2"; },
       "the fingerprint of the training differs, a1 here and b2 there"},
  };
  for (const Case& one : cases) {
    Hello theirs = worker(3);
    one.change(theirs);
    const auto refusal = judge(worker(0), theirs);
    ASSERT_TRUE(refusal) << one.why;
    EXPECT_EQ(refusal->why, "worker 0 of attempt 2 refuses worker 3 of attempt " +
                                std::to_string(theirs.attempt) + ": " + one.why);
    EXPECT_EQ(refusal->code, one.code) << one.why;
    EXPECT_EQ(refusal_of(to_json(*refusal))->code, one.code);
  }
}

TEST(Refusal, of_an_unknown_code_is_for_good) {
  EXPECT_EQ(refusal_of(R"({"why":"x","code":1})"), (Refusal{"x", ExitCode::kBadInput}));
  EXPECT_EQ(refusal_of(R"({"why":3})"), std::nullopt);
  EXPECT_EQ(refusal_of("x"), std::nullopt);
}

}  // namespace
}  // namespace coxswain::net
