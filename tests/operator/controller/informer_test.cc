#include "operator/controller/informer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "tests/operator/controller/scripted_server.h"

namespace coxswain::controller {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::object;
using Texts = std::vector<std::string>;

// Writes down what comes.
class Notes : public ObjectSink {
 public:
  void begin_list() override { texts.push_back("list"); }
  void listed(const kube::Json& object) override { note("has", object); }
  void end_list(std::uint64_t version) override { texts.push_back("end " + text(version)); }
  void changed(const kube::Json& object) override { note("changed", object); }
  void deleted(const kube::Json& object) override { note("deleted", object); }
  void progress(std::uint64_t version) override { texts.push_back("progress " + text(version)); }

  Texts texts;

 private:
  static std::string text(std::uint64_t version) { return std::to_string(version); }
  void note(const std::string& what, const kube::Json& object) {
    const kube::ObjectMeta meta = kube::meta_of(object);
    texts.push_back(what + " " + meta.name + "@" + text(meta.resource_version));
  }
};

// An informer on a server that says what the test wrote, run to the end of the script.
struct InformerTrial {
  test::ScriptedServer server;
  Notes notes;
  std::vector<milliseconds> rests;
  Texts errors;
  bool synced = false;

  void run(InformerOptions options = {}) {
    options.sleep = [this](milliseconds time, std::stop_token) { rests.push_back(time); };
    options.clock.now = [this] { return std::chrono::steady_clock::time_point(server.now); };
    options.on_error = [this](const kube::ApiError& error) {
      errors.push_back(std::to_string(error.code) + " " + error.reason);
    };
    kube::Client client(server, {.sleep = [](milliseconds) {}, .tries = 1});
    Informer informer(client, kube::kPods, options, notes);
    EXPECT_FALSE(informer.synced());
    informer.run(server.all_is_said.get_token());
    synced = informer.synced();
  }

  // "list" or "watch VERSION", as they were asked for.
  Texts asked() const {
    Texts texts;
    for (const std::string& target : server.targets) {
      const auto version = target.find("resourceVersion=");
      const bool is_watch = target.find("watch=true") != std::string::npos;
      texts.push_back(is_watch ? "watch " + target.substr(version + 16, 3) : "list");
    }
    return texts;
  }
};

kube::Json bookmark(std::uint64_t version) { return object("a/none", "", version); }

TEST(Informer, lists_then_watches_from_the_version_of_the_list) {
  InformerTrial trial;
  trial.server.list(100, {object("a/p", "u", 90)})
      .watch({{"ADDED", object("a/q", "v", 101)},
              {"MODIFIED", object("a/p", "u", 103)},
              {"BOOKMARK", bookmark(107)},
              {"DELETED", object("a/q", "v", 109)}});
  trial.run({.query = {.name_space = "a", .label_selector = "x"}});
  EXPECT_EQ(trial.notes.texts, (Texts{"list", "has p@90", "end 100", "changed q@101",
                                      "changed p@103", "progress 107", "deleted q@109"}));
  EXPECT_EQ(trial.asked(), (Texts{"list", "watch 100", "watch 109"}));
  EXPECT_NE(trial.server.targets[0].find("/namespaces/a/pods"), std::string::npos);
  EXPECT_NE(trial.server.targets[1].find("labelSelector=x"), std::string::npos);
  EXPECT_TRUE(trial.synced);
  EXPECT_TRUE(trial.rests.empty());
  EXPECT_TRUE(trial.errors.empty());
}

TEST(Informer, watches_on_at_once_after_a_quiet_watch_that_lasted) {
  InformerTrial trial;
  trial.server.list(100, {}).watch({}, seconds(50)).watch({}, seconds(50));
  trial.run();
  EXPECT_EQ(trial.asked(), (Texts{"list", "watch 100", "watch 100", "watch 100"}));
  EXPECT_TRUE(trial.rests.empty());
}

TEST(Informer, rests_after_watches_that_end_at_once_with_nothing) {
  InformerTrial trial;
  trial.server.list(100, {}).watch({}).watch({}).watch({});
  trial.run();
  ASSERT_EQ(trial.rests.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    const milliseconds least = milliseconds(800) * (1 << i);
    EXPECT_GE(trial.rests[i], least);
    EXPECT_LE(trial.rests[i], least * 11 / 10);
  }
}

TEST(Informer, rests_at_most_half_a_minute_and_a_tenth) {
  InformerTrial trial;
  for (int i = 0; i < 20; ++i) trial.server.fail(503, "Unavailable");
  trial.run();
  ASSERT_EQ(trial.rests.size(), 20u);
  EXPECT_GE(trial.rests.back(), seconds(30));
  EXPECT_LE(trial.rests.back(), seconds(33));
}

TEST(Informer, a_watch_that_works_shortens_the_rest_again) {
  InformerTrial trial;
  trial.server.list(100, {}).fail(500, "Down").fail(500, "Down").fail(500, "Down");
  trial.server.watch({{"ADDED", object("a/p", "u", 101)}}).fail(500, "Down");
  trial.run();
  ASSERT_GE(trial.rests.size(), 4u);
  EXPECT_GE(trial.rests[2], milliseconds(3200));
  EXPECT_LE(trial.rests[3], milliseconds(880));
  EXPECT_EQ(trial.errors[0], "500 Down");
  EXPECT_EQ(trial.errors[1], "500 Down") << "told anew after it had worked";
}

TEST(Informer, watches_on_from_the_last_event_after_a_broken_watch) {
  InformerTrial trial;
  trial.server.list(100, {}).watch({{"ADDED", object("a/p", "u", 105)}});
  trial.server.answer(0, "connection reset").watch({}, seconds(9));
  trial.run();
  EXPECT_EQ(trial.asked(), (Texts{"list", "watch 100", "watch 105", "watch 105", "watch 105"}));
  EXPECT_EQ(trial.rests.size(), 1u);
}

TEST(Informer, lists_anew_when_the_version_has_expired) {
  const kube::Json gone = {{"kind", "Status"}, {"code", 410}, {"reason", "Expired"}};
  struct Case {
    const char* what;
    std::function<void(test::ScriptedServer&)> expire;
  };
  const Case cases[] = {
      {"as the answer", [](auto& server) { server.fail(410, "Expired"); }},
      {"in the stream", [&](auto& server) { server.watch({{"ERROR", gone}}); }},
      {"garbage", [](auto& server) { server.answer(200, "<html>\n"); }},
      {"an unknown type", [](auto& server) { server.watch({{"LOST", bookmark(105)}}); }},
  };
  for (const Case& c : cases) {
    InformerTrial trial;
    trial.server.list(100, {});
    c.expire(trial.server);
    trial.server.list(200, {object("a/p", "u", 150)});
    trial.run();
    EXPECT_EQ(trial.asked(), (Texts{"list", "watch 100", "list", "watch 200"})) << c.what;
    EXPECT_EQ(trial.notes.texts, (Texts{"list", "end 100", "list", "has p@150", "end 200"}))
        << c.what;
  }
}

TEST(Informer, does_not_list_in_a_circle_without_rest) {
  InformerTrial trial;
  for (int i = 0; i < 4; ++i) trial.server.list(100, {}).fail(410, "Expired");
  trial.run();
  EXPECT_GE(trial.rests.size(), 3u);
  EXPECT_GE(trial.rests[0], milliseconds(800));
}

TEST(Informer, lists_anew_when_versions_go_back_or_are_missing) {
  for (const std::uint64_t version : {std::uint64_t{101}, std::uint64_t{0}}) {
    InformerTrial trial;
    trial.server.list(100, {})
        .watch({{"ADDED", object("a/p", "u", 105)},
                {"ADDED", object("a/q", "v", version)},
                {"ADDED", object("a/r", "w", 107)}})
        .list(200, {});
    trial.run();
    EXPECT_EQ(trial.asked(), (Texts{"list", "watch 100", "list", "watch 200"})) << version;
    EXPECT_EQ(trial.notes.texts, (Texts{"list", "end 100", "changed p@105", "list", "end 200"}));
    EXPECT_EQ(trial.errors, (Texts{"0 Untrusted"}));
  }
}

TEST(Informer, takes_the_same_event_twice) {
  InformerTrial trial;
  trial.server.list(100, {}).watch(
      {{"ADDED", object("a/p", "u", 105)}, {"ADDED", object("a/p", "u", 105)}});
  trial.run();
  EXPECT_EQ(trial.asked(), (Texts{"list", "watch 100", "watch 105"}));
}

TEST(Informer, lists_again_every_ten_minutes_though_all_is_well) {
  InformerTrial trial;
  trial.server.list(100, {});
  for (int i = 0; i < 12; ++i) trial.server.watch({}, seconds(50));
  trial.server.list(200, {});
  trial.run();
  EXPECT_EQ(std::count(trial.notes.texts.begin(), trial.notes.texts.end(), "list"), 2);
  EXPECT_EQ(trial.asked().back(), "watch 200");
}

TEST(Informer, tells_each_kind_of_error_once_and_goes_on_trying) {
  InformerTrial trial;
  trial.server.fail(403, "Forbidden").fail(403, "Forbidden").fail(404, "NotFound");
  trial.server.fail(403, "Forbidden").answer(200, "no JSON").list(100, {});
  trial.server.watch({{"ADDED", object("a/p", "u", 101)}}).fail(403, "Forbidden");
  trial.run();
  EXPECT_EQ(trial.errors, (Texts{"403 Forbidden", "404 NotFound", "0 NoAnswer",
                                 // ... and after it had worked
                                 "403 Forbidden", "0 NoAnswer"}));
  EXPECT_TRUE(trial.synced);
}

TEST(Informer, a_refused_watch_is_tried_from_a_list) {
  InformerTrial trial;
  trial.server.list(100, {}).fail(403, "Forbidden").list(200, {}).fail(429, "Busy");
  trial.run();
  EXPECT_EQ(trial.asked(), (Texts{"list", "watch 100", "list", "watch 200", "watch 200"}));
  EXPECT_EQ(trial.rests.size(), 2u);
}

TEST(Informer, a_list_without_a_version_is_no_list) {
  InformerTrial trial;
  trial.server.answer(200, R"({"kind":"PodList","metadata":{"resourceVersion":"x1"},"items":[]})");
  trial.run();
  EXPECT_FALSE(trial.synced);
  EXPECT_EQ(trial.asked(), (Texts{"list", "list"}));
}

TEST(Informer, a_list_whose_page_expired_forgets_the_pages_before) {
  InformerTrial trial;
  trial.server.list(100, {object("a/p", "u", 90)}, "more").fail(410, "Expired").list(200, {});
  trial.run();
  EXPECT_EQ(trial.notes.texts, (Texts{"list", "has p@90", "list", "end 200"}));
}

TEST(Informer, tells_those_who_wait_that_the_first_list_was_refused_or_is_whole) {
  InformerTrial trial;
  Texts told;
  InformerOptions options;
  options.on_synced = [&] { told.push_back("synced"); };
  options.on_turn = [&] {
    if (told.empty() || told.back() != "turn") told.push_back("turn");
  };
  trial.server.answer(0, "nobody there").fail(403, "Forbidden").list(100, {});
  trial.server.fail(410, "Expired").list(200, {});
  trial.run(options);
  EXPECT_EQ(told, (Texts{"turn", "synced", "turn"})) << "once";

  test::ScriptedServer server;
  server.fail(403, "Forbidden");
  Notes notes;
  options = {};
  options.sleep = [&](milliseconds, std::stop_token) { server.all_is_said.request_stop(); };
  kube::Client client(server, {.sleep = [](milliseconds) {}, .tries = 1});
  Informer informer(client, kube::kPods, options, notes);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_FALSE(informer.wait_tried(stop.get_token()));
  informer.run(server.all_is_said.get_token());
  EXPECT_TRUE(informer.wait_tried({}));
  EXPECT_FALSE(informer.synced());
}

TEST(Informer, tells_those_who_wait_that_the_first_list_is_whole) {
  test::ScriptedServer server;
  server.list(100, {});
  Notes notes;
  kube::Client client(server, {.sleep = [](milliseconds) {}, .tries = 1});
  Informer informer(client, kube::kPods, {}, notes);
  bool synced = false;
  {
    std::jthread waiter([&] { synced = informer.wait_synced({}); });
    informer.run(server.all_is_said.get_token());
  }
  EXPECT_TRUE(synced);
}

TEST(Informer, those_who_wait_in_vain_can_be_stopped) {
  test::ScriptedServer server;
  Notes notes;
  kube::Client client(server, {.sleep = [](milliseconds) {}, .tries = 1});
  const Informer informer(client, kube::kPods, {}, notes);
  std::stop_source stop;
  bool synced = true;
  {
    std::jthread waiter([&] { synced = informer.wait_synced(stop.get_token()); });
    stop.request_stop();
  }
  EXPECT_FALSE(synced);
}

}  // namespace

}  // namespace coxswain::controller
