#include "operator/kube/watch.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "operator/kube/list_page.h"

namespace coxswain::kube {
namespace {

using Texts = std::vector<std::string>;

std::string nested(int depth) {
  return std::string(static_cast<std::size_t>(depth), '[') +
         std::string(static_cast<std::size_t>(depth), ']');
}

TEST(Watch, reads_every_type_of_event) {
  const struct {
    const char* word;
    WatchEventType type;
  } cases[] = {{"ADDED", WatchEventType::kAdded},
               {"MODIFIED", WatchEventType::kModified},
               {"DELETED", WatchEventType::kDeleted},
               {"BOOKMARK", WatchEventType::kBookmark},
               {"ERROR", WatchEventType::kError}};
  for (const auto& [word, type] : cases) {
    const auto event = parse_watch_event(std::string(R"({"type":")") + word +
                                         R"(","object":{"metadata":{"resourceVersion":"7"}}})");
    ASSERT_TRUE(event) << word;
    EXPECT_EQ(event->type, type) << word;
    EXPECT_EQ(meta_of(event->object).resource_version, 7u) << word;
  }
}

TEST(Watch, refuses_what_is_no_event) {
  const std::string cases[] = {
      "",
      "x",
      "null",
      "[]",
      "{}",
      R"({"type":"ADDED"})",
      R"({"type":"ADDED","object":[]})",
      R"({"type":"RENAMED","object":{}})",
      R"({"type":7,"object":{}})",
      R"({"type":"ADDED","object":{}} {})",
      R"({"type":"ADDED","object":{})",
      "{\"type\":\"ADDED\",\"object\":{\"a\":\"\xff\"}}",
      R"({"type":"ADDED","object":{"a":)" + nested(100'000),
  };
  for (const std::string& line : cases) EXPECT_FALSE(parse_watch_event(line)) << line.substr(0, 80);
}

TEST(JsonReader, counts_the_depth_outside_of_texts_only) {
  const auto mark_of = [](const std::string& text) {
    const auto object = parse_object(text);
    return object ? too_deep(*object).value_or("whole") : "none";
  };
  EXPECT_EQ(mark_of(R"({"a":)" + nested(kMaxDepth - 1) + "}"), "whole");
  EXPECT_EQ(mark_of(R"({"a":)" + nested(kMaxDepth) + "}"), "a");
  EXPECT_EQ(mark_of(R"({"a":")" + std::string(100, '[') + R"(\"[[[[[[\\"})"), "whole");
  EXPECT_EQ(mark_of(R"({"a":)" + nested(kMaxDepth) + "}}"), "none");
}

// Wherever it comes from, an object is read to the same depth, and what follows it is read too.
TEST(JsonReader, an_object_that_is_nested_too_deep_harms_no_other) {
  const auto job = [](const std::string& name, int depth) {
    return R"({"metadata":{"name":")" + name + R"("},"spec":{"image":"i","training":{"a":)" +
           nested(depth) + R"(},"launcher":"Env"}})";
  };
  constexpr int kMost = kMaxDepth - 3;  // beneath the job, its spec and training
  for (const int depth : {kMost + 1, 10'000}) {
    Texts seen;
    const auto page = parse_list_page(
        R"({"items":[)" + job("a", kMost) + "," + job("b", depth) + "," + job("c", 1) +
            R"(],"metadata":{"resourceVersion":"1"}})",
        {}, [&](const Json& item) {
          seen.push_back(meta_of(item).name + " " + too_deep(item).value_or("whole"));
        });
    EXPECT_TRUE(page);
    EXPECT_EQ(seen, (Texts{"a whole", "b spec.training", "c whole"}));
    const auto event = parse_watch_event(R"({"object":)" + job("b", depth) + R"(,"type":"ADDED"})");
    ASSERT_TRUE(event);
    EXPECT_EQ(too_deep(event->object), "spec.training");
    const Json rest = without_mark(event->object);
    EXPECT_EQ(rest["metadata"], (Json{{"name", "b"}}));
    EXPECT_EQ(rest["spec"]["launcher"], "Env");
    EXPECT_FALSE(too_deep(rest));
  }
}

TEST(JsonReader, leaves_out_members_of_an_object_wherever_it_is_read) {
  const LeftOut left_out{{"metadata", "managedFields"}, {"spec", "containers"}};
  const std::string object =
      R"({"metadata":{"managedFields":[{"a":{"b":[1]}},"c"],"name":"p"},)"
      R"("spec":{"containers":7,"template":{"spec":{"containers":[8]}},"nodeName":"n"},)"
      R"("containers":9,"status":{"metadata":{"managedFields":[10]}}})";
  const Json expected = {
      {"metadata", {{"name", "p"}}},
      {"spec", {{"template", {{"spec", {{"containers", Json::array({8})}}}}}, {"nodeName", "n"}}},
      {"containers", 9},
      {"status", {{"metadata", {{"managedFields", Json::array({10})}}}}}};
  EXPECT_EQ(parse_object(object, left_out), expected);
  const auto event = parse_watch_event(R"({"type":"ADDED","object":)" + object + "}", left_out);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->object, expected);
  int num_items = 0;
  EXPECT_TRUE(parse_list_page(
      R"({"items":[)" + object + "," + object + R"(],"metadata":{"resourceVersion":"1"}})",
      left_out, [&](const Json& item) {
        EXPECT_EQ(item, expected);
        ++num_items;
      }));
  EXPECT_EQ(num_items, 2);
}

TEST(JsonReader, what_it_leaves_out_may_be_as_deep_as_it_likes) {
  const auto object = parse_object(R"({"metadata":{"managedFields":)" + nested(100'000) + "}}",
                                   {{"metadata", "managedFields"}});
  ASSERT_TRUE(object);
  EXPECT_FALSE(too_deep(*object));
}

TEST(LineBuffer, gives_the_same_lines_wherever_the_bytes_are_cut) {
  const std::string text = "one\n\nthree and more\nrest";
  for (std::size_t first = 0; first <= text.size(); ++first) {
    for (std::size_t second = first; second <= text.size(); ++second) {
      LineBuffer buffer;
      std::vector<std::string> lines;
      const auto take = [&](std::string_view line) {
        lines.emplace_back(line);
        return true;
      };
      EXPECT_TRUE(buffer.add(text.substr(0, first), take));
      EXPECT_TRUE(buffer.add(text.substr(first, second - first), take));
      EXPECT_TRUE(buffer.add(text.substr(second), take));
      EXPECT_EQ(lines, (std::vector<std::string>{"one", "", "three and more"}));
    }
  }
}

TEST(LineBuffer, stops_where_the_reader_says_so) {
  LineBuffer buffer;
  int num_lines = 0;
  EXPECT_FALSE(buffer.add("a\nb\nc\n", [&](std::string_view) { return ++num_lines < 2; }));
  EXPECT_EQ(num_lines, 2);
}

TEST(LineBuffer, refuses_a_line_over_the_limit) {
  const auto take = [](std::string_view) { return true; };
  const std::string most(kMaxLineBytes, 'x');
  LineBuffer fits;
  EXPECT_TRUE(fits.add(most, take));
  EXPECT_TRUE(fits.add("\n", take));
  LineBuffer grows;
  EXPECT_TRUE(grows.add(most, take));
  EXPECT_FALSE(grows.add("x", take));
  LineBuffer at_once;
  EXPECT_FALSE(at_once.add(most + "x\n", take));
}

TEST(ErrorOf, says_what_the_server_said) {
  const ApiError error =
      error_of(409,
               R"({"kind":"Status","reason":"AlreadyExists","message":"pods \"a\" already exists",)"
               R"("code":409})",
               {});
  EXPECT_EQ(to_text(error), "409 AlreadyExists: pods \"a\" already exists");
}

TEST(ErrorOf, takes_the_delay_of_the_header_or_else_of_the_status) {
  const char* status = R"({"kind":"Status","details":{"retryAfterSeconds":3}})";
  EXPECT_EQ(error_of(429, status, {}).retry_after, std::chrono::seconds(3));
  EXPECT_EQ(error_of(429, status, std::chrono::seconds(5)).retry_after, std::chrono::seconds(5));
  EXPECT_EQ(error_of(429, "", {}).retry_after, std::nullopt);
  EXPECT_EQ(
      error_of(429, R"({"kind":"Status","details":{"retryAfterSeconds":1e300}})", {}).retry_after,
      std::nullopt);
}

TEST(ErrorOf, explains_an_answer_that_is_no_status_without_repeating_it) {
  const struct {
    int code;
    const char* body;
    const char* text;
  } cases[] = {
      {502, "<html>Authorization: Bearer s3cret</html>",
       "502 Unknown: the answer is a page, not of the API; is the server's address right?"},
      {302, "<a href=\"https://elsewhere/?token=s3cret\">",
       "302 Redirect: the server redirects, which is not followed; is its address right?"},
      {401, "", "401 Unauthorized: the answer is empty"},
      {403, "s3cret", "403 Forbidden: the answer (6 bytes) is no Status of the API"},
      {500, R"({"kind":"Pod"})",
       "500 InternalError: the answer (14 bytes) is no Status of the API"},
      {0, "no answer within 10000 ms", "NoAnswer: no answer within 10000 ms"},
      {410, R"({"kind":"Status","message":7,"reason":[]})", "410 Expired"},
      {500, "{\"kind\":\"Status\",\"message\":\"two\\nlines\"}", "500 InternalError: two lines"},
  };
  for (const auto& [code, body, text] : cases) EXPECT_EQ(to_text(error_of(code, body, {})), text);
}

TEST(ErrorOf, cuts_a_long_message_between_two_characters) {
  std::string words(1023, 'x');
  for (int i = 0; i < 50; ++i) words += "é";
  const Json status = {{"kind", "Status"}, {"message", words}};
  EXPECT_EQ(error_of(500, status.dump(), {}).message, std::string(1023, 'x'));
}

TEST(ListPage, hands_on_the_items_one_by_one) {
  std::vector<std::string> names;
  const auto page =
      parse_list_page(R"({"kind":"PodList","items":[{"metadata":{"name":"a"},"items":[{"b":1}]},)"
                      R"({"metadata":{"name":"b"}}],)"
                      R"("metadata":{"resourceVersion":"12","continue":"next"}})",
                      {}, [&](const Json& item) { names.push_back(meta_of(item).name); });
  ASSERT_TRUE(page);
  EXPECT_EQ(names, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(page->version, "12");
  EXPECT_EQ(page->continue_token, "next");
}

TEST(ListPage, takes_a_list_without_items) {
  for (const char* items : {"", R"("items":null,)", R"("items":[],)"}) {
    const auto page =
        parse_list_page(std::string("{") + items + R"("metadata":{"resourceVersion":"12"}})", {},
                        [](const Json&) { FAIL(); });
    ASSERT_TRUE(page) << items;
    EXPECT_EQ(page->continue_token, "");
  }
}

TEST(ListPage, refuses_what_is_no_list) {
  const std::string cases[] = {
      "",
      "[]",
      "{}",
      R"({"items":[{}]})",
      R"({"items":[],"metadata":{}})",
      R"({"items":[7],"metadata":{"resourceVersion":"1"}})",
      R"({"items":7,"metadata":{"resourceVersion":"1"}})",
      R"({"items":[{}],"metadata":{"resourceVersion":"1"}},)",
      R"({"items":[)" + nested(64) + R"(],"metadata":{"resourceVersion":"1"}})",
  };
  for (const std::string& text : cases)
    EXPECT_FALSE(parse_list_page(text, {}, [](const Json&) {})) << text.substr(0, 80);
}

}  // namespace
}  // namespace coxswain::kube
