#include "operator/job/validation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace coxswain::job {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> refused_by_schema(const char* value, const char* schema) {
  std::vector<Problem> problems;
  check_schema(Json::parse(value), Json::parse(schema), "x", problems);
  std::vector<std::string> texts;
  for (const Problem& problem : problems) texts.push_back(to_text(problem));
  return texts;
}

constexpr const char* kObject = R"({"type":"object","required":["name"],"properties":{
    "name":{"type":"string","maxLength":3}, "count":{"type":"integer","format":"int32","minimum":1},
    "word":{"type":"string","enum":["a","b"]}, "any":{"x-kubernetes-int-or-string":true},
    "flag":{"type":"boolean"}, "share":{"type":"number"},
    "free":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
    "texts":{"type":"object","additionalProperties":{"type":"string"}}}})";

constexpr const char* kPorts = R"({"type":"array","maxItems":3,"x-kubernetes-list-type":"map",
    "x-kubernetes-list-map-keys":["port","protocol"],"items":{"type":"object","properties":{
    "port":{"type":"integer"},"protocol":{"type":"string","default":"TCP"}}}})";

}  // namespace

TEST(SchemaRules, take_what_fits) {
  EXPECT_THAT(
      refused_by_schema(R"({"name":"äöü","count":1,"word":"a","any":"x","flag":false,"share":1,
                          "free":{"y":[]},"texts":{"z":""}})",
                        kObject),
      IsEmpty());
  EXPECT_THAT(refused_by_schema(R"({"name":"a","count":null,"any":3,"share":0.5})", kObject),
              IsEmpty());
  EXPECT_THAT(refused_by_schema(R"([{"port":1},{"port":1,"protocol":"UDP"},{"port":2}])", kPorts),
              IsEmpty());
}

TEST(SchemaRules, name_what_does_not_and_where) {
  const std::vector<std::pair<const char*, std::string>> rows{
      {R"([])", "x: must be an object, got a list"},
      {R"({})", "x.name: required"},
      {R"({"name":null})", "x.name: required"},
      {R"({"name":5})", "x.name: must be a text, got 5"},
      {R"({"name":"abcd"})", "x.name: at most 3 characters, got 4"},
      {R"({"name":"a","count":0})", "x.count: must be at least 1, got 0"},
      {R"({"name":"a","count":2147483648})", "x.count: must be at most 2147483647, got 2147483648"},
      {R"({"name":"a","count":1.5})", "x.count: must be an integer, got 1.5"},
      {R"({"name":"a","word":"c"})", "x.word: must be one of a, b; got the text \"c\""},
      {R"({"name":"a","any":0.5})", "x.any: must be an integer or a text, got 0.5"},
      {R"({"name":"a","flag":"true"})", "x.flag: must be true or false, got the text \"true\""},
      {R"({"name":"a","share":"1"})", "x.share: must be a number, got the text \"1\""},
      {R"({"name":"a","texts":{"z":null}})", "x.texts.z: must be a text, got null"},
      {R"({"name":"a","cuont":1})", "x.cuont: unknown field; did you mean \"count\"?"},
  };
  for (const auto& [value, text] : rows)
    EXPECT_THAT(refused_by_schema(value, kObject), ElementsAre(text)) << value;
}

TEST(SchemaRules, find_twins_in_lists_that_are_maps) {
  EXPECT_THAT(refused_by_schema(R"([{"port":1},{"port":1,"protocol":"TCP"}])", kPorts),
              ElementsAre(R"(x[1]: a second one of {"port":1,"protocol":"TCP"})"));
  EXPECT_THAT(refused_by_schema(R"([{"port":1},{"port":2},{"port":3},{"port":4}])", kPorts),
              ElementsAre("x: at most 3 entries, got 4"));
  EXPECT_THAT(refused_by_schema(R"(["a","a"])", R"({"type":"array","x-kubernetes-list-type":"set",
                          "items":{"type":"string"}})"),
              ElementsAre("x[1]: a second one of \"a\""));
  EXPECT_THAT(refused_by_schema(R"([null])", R"({"type":"array","items":{"type":"string"}})"),
              ElementsAre("x[0]: must be a text, got null"));
}

}  // namespace coxswain::job
