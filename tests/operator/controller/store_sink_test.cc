#include "operator/controller/store_sink.h"

#include <gtest/gtest.h>

#include "tests/operator/controller/objects.h"

namespace coxswain::controller {

namespace {

using kube::Json;
using test::object;
using Texts = std::vector<std::string>;

// Keeps the job that a pod's label names.
struct SinkTrial {
  Store<std::string> store;
  Texts woken;
  StoreSink<std::string> sink{
      store, "",
      [](const Json& pod) -> std::optional<std::string> {
        const auto labels = pod.at("metadata").find("labels");
        if (labels == pod.at("metadata").end()) return std::nullopt;
        return labels->at("job").get<std::string>();
      },
      [this](const kube::ObjectMeta&, const std::string& job) { woken.push_back(job); }};

  static Json pod(const std::string& name, std::uint64_t version, const std::string& job) {
    Json pod = object("a/" + name, "uid-" + name, version);
    if (!job.empty()) pod["metadata"]["labels"] = {{"job", job}};
    return pod;
  }
};

TEST(StoreSink, tells_of_what_a_list_found_and_what_it_missed) {
  SinkTrial trial;
  trial.sink.begin_list();
  trial.sink.listed(SinkTrial::pod("p", 1, "first"));
  trial.sink.listed(SinkTrial::pod("q", 2, ""));
  trial.sink.end_list(5);
  EXPECT_EQ(trial.woken, (Texts{"first"}));
  EXPECT_EQ(trial.store.size(), 1u) << "what is none of ours is not kept";

  trial.woken.clear();
  trial.sink.begin_list();
  trial.sink.listed(SinkTrial::pod("r", 6, "second"));
  trial.sink.end_list(9);
  EXPECT_EQ(trial.woken, (Texts{"first", "second"})) << "the vanished one by what was kept of it";
  EXPECT_EQ(trial.store.seen_version("a"), 9u);
}

TEST(StoreSink, a_list_begun_anew_forgets_what_came_before) {
  SinkTrial trial;
  trial.sink.begin_list();
  trial.sink.listed(SinkTrial::pod("p", 1, "first"));
  trial.sink.begin_list();
  trial.sink.end_list(5);
  EXPECT_EQ(trial.store.size(), 0u);
}

TEST(StoreSink, tells_both_jobs_when_a_pod_goes_from_one_to_the_other) {
  SinkTrial trial;
  trial.sink.changed(SinkTrial::pod("p", 1, "first"));
  trial.sink.changed(SinkTrial::pod("p", 2, "second"));
  EXPECT_EQ(trial.woken, (Texts{"first", "first", "second"}));
}

TEST(StoreSink, says_nothing_of_what_was_known) {
  SinkTrial trial;
  trial.store.put_answer(test::meta("a/p", "uid-p", 3), "first");
  trial.sink.changed(SinkTrial::pod("p", 2, "first"));
  trial.sink.changed(SinkTrial::pod("p", 3, "first"));
  trial.sink.deleted(SinkTrial::pod("other", 4, "first"));
  EXPECT_TRUE(trial.woken.empty());
  EXPECT_EQ(trial.store.seen_version("a"), 4u);
}

TEST(StoreSink, tells_of_a_deletion_and_of_an_object_that_is_ours_no_more) {
  SinkTrial trial;
  trial.sink.changed(SinkTrial::pod("p", 1, "first"));
  trial.sink.changed(SinkTrial::pod("q", 2, "second"));
  trial.woken.clear();
  trial.sink.deleted(SinkTrial::pod("p", 3, ""));
  trial.sink.changed(SinkTrial::pod("q", 4, ""));
  EXPECT_EQ(trial.woken, (Texts{"first", "second"}));
  EXPECT_EQ(trial.store.size(), 0u);
  trial.sink.progress(8);
  EXPECT_EQ(trial.store.seen_version("a"), 8u);
}

}  // namespace

}  // namespace coxswain::controller
