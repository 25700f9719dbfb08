#include "operator/kube/client.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/fake_transport.h"

namespace coxswain::kube {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::FakeTransport;

Response answer(int status, const std::string& body = "{}") { return {status, {}, body}; }
Response wait_answer(int status, int wait_seconds) {
  return {status, seconds(wait_seconds), R"({"kind":"Status"})"};
}

const Json kObject = {{"metadata", {{"name", "a"}}}};

Response too_long() { return {.retry_after = {}, .body = "over the limit", .is_too_long = true}; }

class ClientTest : public testing::Test {
 protected:
  ClientOptions options() {
    ClientOptions options;
    options.may_write = [this] { return num_may_write_ > 0 && num_may_write_-- > 0; };
    options.on_call = [this](const Call& call) { calls_.push_back(call); };
    options.sleep = [this](milliseconds time) { waits_.push_back(time); };
    return options;
  }

  FakeTransport transport_;
  int num_may_write_ = 1'000'000;
  std::vector<Call> calls_;
  std::vector<milliseconds> waits_;
  Client client_{transport_, options()};
};

TEST_F(ClientTest, sends_each_call_as_the_api_wants_it) {
  const Resource jobs{"coxswain.dev", "v1alpha1", "trainingjobs", "TrainingJob"};
  (void)client_.get(kPods, "ns", "a");
  (void)client_.create(kPods, "ns", kObject);
  (void)client_.update(kLeases, "ns", "a", kObject);
  (void)client_.patch(jobs, "ns", "a", "status", kObject);
  (void)client_.remove(kPods, "ns", "a", {.uid = "u", .resource_version = "", .grace = {}});
  (void)client_.remove(kPods, "ns", "a",
                       {.uid = "u", .resource_version = "7", .grace = seconds(0)});
  const std::string body = kObject.dump();
  const struct {
    Method method;
    std::string target;
    std::string content_type;
    std::string body;
  } expected[] = {
      {Method::kGet, "/api/v1/namespaces/ns/pods/a", "", ""},
      {Method::kPost, "/api/v1/namespaces/ns/pods", "application/json", body},
      {Method::kPut, "/apis/coordination.k8s.io/v1/namespaces/ns/leases/a", "application/json",
       body},
      {Method::kPatch, "/apis/coxswain.dev/v1alpha1/namespaces/ns/trainingjobs/a/status",
       "application/merge-patch+json", body},
      {Method::kDelete, "/api/v1/namespaces/ns/pods/a", "application/json",
       R"({"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"u"},)"
       R"("propagationPolicy":"Background"})"},
      {Method::kDelete, "/api/v1/namespaces/ns/pods/a", "application/json",
       R"({"apiVersion":"v1","gracePeriodSeconds":0,"kind":"DeleteOptions",)"
       R"("preconditions":{"resourceVersion":"7","uid":"u"},"propagationPolicy":"Background"})"},
  };
  const auto requests = transport_.requests();
  ASSERT_EQ(requests.size(), std::size(expected));
  for (std::size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(requests[i].method, expected[i].method) << i;
    EXPECT_EQ(requests[i].target, expected[i].target) << i;
    EXPECT_EQ(requests[i].content_type, expected[i].content_type) << i;
    EXPECT_EQ(requests[i].body, expected[i].body) << i;
  }
  EXPECT_EQ(calls_[3].resource, "trainingjobs/status");
}

TEST_F(ClientTest, asks_for_the_metadata_of_what_it_creates_where_that_is_enough) {
  (void)client_.create(kPods, "ns", kObject);
  (void)client_.create(kPods, "ns", kObject, Extent::kMetadata);
  EXPECT_EQ(transport_.requests()[0].accept, "application/json");
  EXPECT_EQ(transport_.requests()[1].accept,
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1");
}

TEST_F(ClientTest, bytes_that_are_no_utf8_are_replaced_not_refused) {
  EXPECT_TRUE(client_.create(kPods, "ns", Json{{"message", "\xff"}}));
  EXPECT_EQ(transport_.requests()[0].body, "{\"message\":\"\xEF\xBF\xBD\"}");
}

TEST_F(ClientTest, repeats_what_may_pass_and_nothing_else) {
  for (const int status : {0, 429, 500, 502, 503, 504}) {
    transport_.script({answer(status), answer(status), answer(201)});
    const std::size_t before = transport_.requests().size();
    EXPECT_TRUE(client_.create(kPods, "ns", kObject)) << status;
    EXPECT_EQ(transport_.requests().size() - before, 3u) << status;
  }
  for (const int status : {301, 400, 401, 403, 404, 409, 410, 422}) {
    transport_.script({answer(status), answer(201)});
    const std::size_t before = transport_.requests().size();
    const auto result = client_.create(kPods, "ns", kObject);
    ASSERT_FALSE(result) << status;
    EXPECT_EQ(result.error().code, status);
    EXPECT_EQ(transport_.requests().size() - before, 1u) << status;
  }
}

TEST_F(ClientTest, gives_up_after_four_tries_and_tells_of_each) {
  transport_.script({answer(503)});
  const auto result = client_.get(kPods, "ns", "a");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, 503);
  ASSERT_EQ(calls_.size(), 4u);
  for (const Call& call : calls_) EXPECT_EQ(call.code, 503);
  ASSERT_EQ(waits_.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_GE(waits_[i], milliseconds(50 << i)) << i;
    EXPECT_LE(waits_[i], milliseconds(100 << i)) << i;
  }
}

TEST_F(ClientTest, waits_as_long_as_the_server_asks) {
  transport_.script({wait_answer(429, 2), answer(200)});
  EXPECT_TRUE(client_.get(kPods, "ns", "a"));
  EXPECT_EQ(waits_, std::vector<milliseconds>{seconds(2)});
}

TEST_F(ClientTest, all_tries_together_take_30_s_at_most) {
  transport_.script({wait_answer(503, 14)});
  const auto result = client_.get(kPods, "ns", "a");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().retry_after, seconds(14));
  EXPECT_EQ(waits_, (std::vector<milliseconds>{seconds(14), seconds(14)}));
  const auto requests = transport_.requests();
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_EQ(requests[1].deadline, seconds(10));
  EXPECT_LE(requests[2].deadline, seconds(2));
  EXPECT_GT(requests[2].deadline, seconds(1));
}

TEST_F(ClientTest, a_server_that_asks_for_an_hour_is_not_waited_for) {
  transport_.script({wait_answer(429, 3600)});
  EXPECT_FALSE(client_.get(kPods, "ns", "a"));
  EXPECT_EQ(transport_.requests().size(), 1u);
  EXPECT_TRUE(waits_.empty());
}

TEST_F(ClientTest, nothing_is_written_after_the_lease_is_lost) {
  transport_.script({answer(500)});
  num_may_write_ = 2;
  const auto result = client_.create(kPods, "ns", kObject);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().reason, "NotLeader");
  EXPECT_EQ(transport_.requests().size(), 2u);
  EXPECT_EQ(client_.remove(kPods, "ns", "a", {.uid = "u", .resource_version = "", .grace = {}})
                .error()
                .reason,
            "NotLeader");
  EXPECT_EQ(client_.update(kPods, "ns", "a", kObject).error().reason, "NotLeader");
  EXPECT_EQ(client_.patch(kPods, "ns", "a", "", kObject).error().reason, "NotLeader");
  EXPECT_EQ(transport_.requests().size(), 2u);
  transport_.script({answer(200)});
  EXPECT_TRUE(client_.get(kPods, "ns", "a"));
}

TEST_F(ClientTest, an_answer_that_is_no_object_is_no_answer) {
  for (const char* body : {"", "[]", "<html>", "{"}) {
    transport_.script({answer(200, body)});
    const auto result = client_.get(kPods, "ns", "a");
    ASSERT_FALSE(result) << body;
    EXPECT_EQ(to_text(result.error()), "NoAnswer: the answer (200) is no object of the API");
  }
}

std::string page(const std::string& name, const std::string& continue_token) {
  return R"({"metadata":{"resourceVersion":"9","continue":")" + continue_token +
         R"("},"items":[{"metadata":{"name":")" + name + R"("}}]})";
}

TEST_F(ClientTest, lists_page_by_page) {
  transport_.script({answer(200, page("a", "t/1")), answer(200, page("b", ""))});
  std::vector<Json> items;
  const auto version = client_.list(kPods, {"ns", "coxswain.dev/job,x=y", "", 500},
                                    [&](Json item) { items.push_back(std::move(item)); });
  ASSERT_TRUE(version);
  EXPECT_EQ(*version, "9");
  ASSERT_EQ(items.size(), 2u);
  EXPECT_EQ(items[0], Json::parse(R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}})"));
  const auto requests = transport_.requests();
  EXPECT_EQ(requests[0].target,
            "/api/v1/namespaces/ns/pods?limit=500&labelSelector=coxswain.dev%2Fjob%2Cx%3Dy");
  EXPECT_EQ(requests[1].target, requests[0].target + "&continue=t%2F1");
}

// A page of 500 may hold objects of 1.5 MiB each.
TEST_F(ClientTest, a_page_that_is_too_long_is_asked_for_with_fewer_objects) {
  transport_.on_send = [](const Request& request) {
    if (request.target.find("limit=7") == std::string::npos) return too_long();
    const bool is_first = request.target.find("continue") == std::string::npos;
    return is_first ? answer(200, page("a", "t")) : answer(200, page("b", ""));
  };
  std::string names;
  EXPECT_TRUE(client_.list(kPods, {"", "", "", 500},
                           [&](const Json& item) { names += meta_of(item).name; }));
  EXPECT_EQ(names, "ab");
  EXPECT_EQ(transport_.requests().size(), 4u) << "500, 62, 7, and the next page with 7";
}

TEST_F(ClientTest, a_single_object_that_is_too_long_ends_the_list) {
  transport_.script({too_long()});
  EXPECT_EQ(client_.list(kPods, {"", "", "", 500}, [](const Json&) {}).error().reason, "TooLong");
  EXPECT_EQ(transport_.requests().size(), 4u) << "500, 62, 7, 1";
}

TEST_F(ClientTest, an_expired_page_begins_the_list_anew) {
  transport_.script({answer(200, page("a", "t")), answer(410), answer(200, page("a", "t")),
                     answer(200, page("b", ""))});
  std::string names;
  const auto version = client_.list(
      kPods, {"", "", "", 500}, [&](const Json& item) { names += meta_of(item).name; },
      [&] { names += "|"; });
  EXPECT_TRUE(version);
  EXPECT_EQ(names, "a|ab");
}

TEST_F(ClientTest, a_list_that_always_expires_ends) {
  transport_.on_send = [](const Request& request) {
    return request.target.find("continue") == std::string::npos ? answer(200, page("a", "t"))
                                                                : answer(410);
  };
  const auto version = client_.list(kPods, {"", "", "", 500}, [](const Json&) {});
  ASSERT_FALSE(version);
  EXPECT_EQ(version.error().code, 410);
  EXPECT_EQ(transport_.requests().size(), 8u);
}

TEST_F(ClientTest, a_list_that_is_cut_or_refused_is_an_error) {
  transport_.script({answer(200, "{\"items\":[")});
  EXPECT_EQ(client_.list(kPods, {"", "", "", 500}, [](const Json&) {}).error().reason, "NoAnswer");
  transport_.script({answer(403)});
  EXPECT_EQ(client_.list(kPods, {"", "", "", 500}, [](const Json&) {}).error().code, 403);
  transport_.script({answer(410)});
  EXPECT_EQ(client_.list(kPods, {"", "", "", 500}, [](const Json&) {}).error().code, 410);
}

const char* const kAdded = R"({"type":"ADDED","object":{"metadata":{"name":"a"}}})"
                           "\n";
const char* const kBookmark =
    R"({"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"99"}}})"
    "\n";

TEST_F(ClientTest, watches_from_a_version_with_bookmarks) {
  transport_.on_stream = [](const Request&) {
    return FakeTransport::Stream{
        {std::string(kAdded).substr(0, 10), std::string(kAdded).substr(10) + kBookmark},
        answer(200)};
  };
  std::vector<WatchEventType> types;
  const WatchEnd end = client_.watch(kPods, {"", "coxswain.dev/job", "", 500}, "7", {},
                                     [&](const WatchEvent& event) { types.push_back(event.type); });
  EXPECT_EQ(types, (std::vector{WatchEventType::kAdded, WatchEventType::kBookmark}));
  EXPECT_FALSE(end.expired);
  EXPECT_FALSE(end.error);
  const Request request = transport_.requests()[0];
  EXPECT_EQ(request.target,
            "/api/v1/pods?watch=true&allowWatchBookmarks=true&timeoutSeconds=50"
            "&resourceVersion=7&labelSelector=coxswain.dev%2Fjob");
  EXPECT_EQ(request.deadline, seconds(60));
}

TEST_F(ClientTest, every_end_of_a_watch_is_told_apart) {
  const auto status = [](int code, const char* reason) {
    return std::string(R"({"type":"ERROR","object":{"kind":"Status","message":"m","reason":")") +
           reason + R"(","code":)" + std::to_string(code) + "}}\n";
  };
  const struct {
    std::string piece;
    Response end;
    bool expired;
    std::string text;
  } cases[] = {
      {kAdded, answer(200), false, ""},
      {"", answer(410, R"({"kind":"Status","reason":"Expired","message":"m"})"), true,
       "410 Expired: m"},
      {status(410, "Expired"), answer(200), true, "410 Expired: m"},
      {status(500, "InternalError"), answer(200), false, "500 InternalError: m"},
      {status(504, "Timeout"), answer(200), false, "504 Timeout: m"},
      {"",
       answer(504,
              R"({"kind":"Status","reason":"Timeout","message":"Too large resource version"})"),
       false, "504 Timeout: Too large resource version"},
      {"", answer(403, ""), false, "403 Forbidden: the answer is empty"},
      {"", answer(0, "silent for 60000 ms"), false, "NoAnswer: silent for 60000 ms"},
      {"{\"type\":\n", answer(200), true,
       "BadWatch: the watch sent a line of 8 bytes that is no event"},
      {"{\"type\":\"NEW\",\"object\":{}}\n", answer(200), true,
       "BadWatch: the watch sent a line of 26 bytes that is no event"},
      {std::string(kMaxLineBytes + 1, 'x'), answer(200), true,
       "BadWatch: the watch sent a line over 16 MiB"},
      {R"({"type":"ERROR","object":{}})"
       "\n",
       answer(200), false, "500 InternalError: the answer (2 bytes) is no Status of the API"},
  };
  for (const auto& [piece, response, expired, text] : cases) {
    transport_.on_stream = [&](const Request&) { return FakeTransport::Stream{{piece}, response}; };
    const WatchEnd end = client_.watch(kPods, {}, "7", {}, [](const WatchEvent&) {});
    EXPECT_EQ(end.expired, expired) << text;
    EXPECT_EQ(end.error ? to_text(*end.error) : "", text);
  }
}

TEST_F(ClientTest, nothing_after_the_first_bad_line_is_handed_on) {
  transport_.on_stream = [](const Request&) {
    return FakeTransport::Stream{{std::string("garbage\n") + kAdded, kAdded}, answer(200)};
  };
  int num_events = 0;
  EXPECT_TRUE(client_.watch(kPods, {}, "7", {}, [&](const WatchEvent&) { ++num_events; }).expired);
  EXPECT_EQ(num_events, 0);
}

TEST_F(ClientTest, a_watch_that_is_told_to_stop_ends_without_error) {
  transport_.on_stream = [](const Request&) {
    return FakeTransport::Stream{{kAdded}, answer(0, "cut")};
  };
  std::stop_source stop;
  stop.request_stop();
  const WatchEnd end = client_.watch(kPods, {}, "7", stop.get_token(), [](const WatchEvent&) {});
  EXPECT_FALSE(end.expired);
  EXPECT_FALSE(end.error);
}

}  // namespace
}  // namespace coxswain::kube
