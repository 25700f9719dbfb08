#include "operator/controller/store.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/operator/controller/objects.h"

namespace coxswain::controller {

namespace {

using test::meta;
using TextStore = Store<std::string>;

// "p@7=value"; "": absent.
std::string at(const TextStore& store, const std::string& key) {
  const auto entry = store.find(key);
  if (!entry) return "";
  return entry->meta.uid + "@" + std::to_string(entry->meta.resource_version) + "=" + entry->value;
}

std::vector<std::string> as_text(const std::vector<TextStore::Entry>& entries) {
  std::vector<std::string> texts;
  for (const auto& entry : entries)
    texts.push_back(entry.meta.name + "@" + std::to_string(entry.meta.resource_version));
  return texts;
}

using Names = std::vector<std::string>;

TEST(Store, keeps_the_newest_of_a_watch) {
  TextStore store;
  EXPECT_TRUE(store.put(meta("a/p", "u", 5), "x"));
  EXPECT_FALSE(store.put(meta("a/p", "u", 5), "x"));
  EXPECT_TRUE(store.put(meta("a/p", "u", 10), "y"));  // compared as numbers: "10" < "5" as text
  EXPECT_FALSE(store.put(meta("a/p", "u", 9), "z"));
  EXPECT_EQ(at(store, "a/p"), "u@10=y");
  EXPECT_EQ(store.seen_version("a"), 10u);
  EXPECT_EQ(store.size(), 1u);
}

TEST(Store, removes_what_the_watch_saw_deleted) {
  TextStore store;
  store.put(meta("a/p", "u", 5), "x");
  EXPECT_TRUE(store.remove(meta("a/p", "u", 8)));
  EXPECT_FALSE(store.remove(meta("a/p", "u", 8)));
  EXPECT_EQ(at(store, "a/p"), "");
  EXPECT_EQ(store.seen_version("a"), 8u);
  EXPECT_FALSE(store.put(meta("a/p", "u", 5), "x")) << "a repeated event";
  EXPECT_EQ(store.size(), 0u);
}

TEST(Store, a_deletion_spares_what_took_the_name_later) {
  TextStore store;
  store.put_answer(meta("a/p", "second", 9), "x");
  EXPECT_FALSE(store.remove(meta("a/p", "first", 8)));
  EXPECT_EQ(at(store, "a/p"), "second@9=x");
  EXPECT_TRUE(store.remove(meta("a/p", "third", 12))) << "the second must be gone for long";
}

TEST(Store, takes_an_answer_that_is_ahead_of_the_watch) {
  TextStore store;
  store.put(meta("a/p", "u", 5), "x");
  EXPECT_TRUE(store.put_answer(meta("a/p", "u", 7), "y"));
  EXPECT_TRUE(store.put_answer(meta("a/q", "v", 8), "z"));
  EXPECT_EQ(at(store, "a/p"), "u@7=y");
  EXPECT_EQ(store.seen_version("a"), 5u) << "an answer says nothing of the watch";
  EXPECT_FALSE(store.put(meta("a/p", "u", 6), "w")) << "the watch is behind";
  EXPECT_EQ(at(store, "a/p"), "u@7=y");
}

TEST(Store, ignores_an_answer_that_the_watch_has_passed) {
  TextStore store;
  store.put(meta("a/p", "u", 5), "x");
  store.remove(meta("a/p", "u", 8));
  EXPECT_FALSE(store.put_answer(meta("a/p", "u", 7), "y"));
  EXPECT_FALSE(store.put_answer(meta("a/p", "u", 8), "y")) << "the answer to the delete itself";
  EXPECT_EQ(store.size(), 0u);
}

TEST(Store, takes_an_answer_that_is_newer_than_what_is_there) {
  TextStore store;  // the watch lost an event
  store.put(meta("a/p", "u", 5), "x");
  store.progress("", 9);
  EXPECT_TRUE(store.put_answer(meta("a/p", "u", 7), "y"));
  EXPECT_EQ(at(store, "a/p"), "u@7=y");
}

TEST(Store, what_an_answer_said_is_gone_stays_gone_though_the_watch_is_behind) {
  TextStore store;
  store.put(meta("a/p", "u", 5), "x");
  store.put_answer(meta("a/p", "u", 9), "y");
  EXPECT_TRUE(store.remove_answer(meta("a/p", "u", 9)));
  EXPECT_EQ(store.seen_version("a"), 5u) << "or answers about others would count as passed";
  EXPECT_FALSE(store.put(meta("a/p", "u", 7), "x"));
  EXPECT_FALSE(store.put_answer(meta("a/p", "u", 8), "x"));
  EXPECT_TRUE(store.put(meta("a/p", "another", 11), "z")) << "one of the same name";
  EXPECT_FALSE(store.remove(meta("a/p", "u", 10)));
  EXPECT_EQ(at(store, "a/p"), "another@11=z");
}

TEST(Store, an_answer_that_another_is_gone_changes_nothing) {
  TextStore store;
  store.put(meta("a/p", "second", 9), "x");
  EXPECT_FALSE(store.remove_answer(meta("a/p", "first", 5)));
  EXPECT_FALSE(store.remove_answer(meta("a/p", "", 9)));
  EXPECT_EQ(at(store, "a/p"), "second@9=x");
}

TEST(Store, a_list_replaces_what_is_older_than_it) {
  TextStore store;
  store.put(meta("a/gone", "g", 3), "x");
  store.put(meta("a/same", "s", 4), "x");
  store.put(meta("a/older", "o", 5), "x");
  store.put_answer(meta("a/newer", "n", 20), "x");
  store.put_answer(meta("a/made", "m", 21), "x");  // after the list
  const auto changed = store.replace("",
                                     {{meta("a/same", "s", 4), "y"},
                                      {meta("a/older", "o", 9), "y"},
                                      {meta("a/newer", "n", 10), "y"},
                                      {meta("a/fresh", "f", 11), "y"}},
                                     15);
  EXPECT_EQ(as_text(changed), (Names{"gone@3", "older@5", "older@9", "fresh@11"}));
  EXPECT_EQ(as_text(store.entries()),
            (Names{"fresh@11", "made@21", "newer@20", "older@9", "same@4"}));
  EXPECT_EQ(store.seen_version("a"), 15u);
}

TEST(Store, a_list_may_hold_an_object_twice) {
  TextStore store;
  store.replace(
      "", {{meta("a/p", "u", 4), "x"}, {meta("a/p", "u", 6), "y"}, {meta("a/p", "u", 5), "z"}}, 7);
  EXPECT_EQ(at(store, "a/p"), "u@6=y");
}

TEST(Store, a_list_that_still_shows_what_an_answer_said_is_gone_does_not_bring_it_back) {
  TextStore store;
  store.put(meta("a/p", "u", 5), "x");
  store.remove_answer(meta("a/p", "u", 5));
  EXPECT_TRUE(store.replace("", {{meta("a/p", "u", 6), "x"}}, 7).empty());
  EXPECT_FALSE(store.put(meta("a/p", "u", 8), "x"));
  EXPECT_TRUE(store.replace("", {}, 9).empty());
  EXPECT_EQ(store.size(), 0u);
}

TEST(Store, watches_of_single_namespaces_advance_apart) {
  TextStore store;
  store.replace("a", {{meta("a/p", "u", 4), "x"}}, 10);
  store.replace("b", {{meta("b/p", "v", 4), "x"}}, 20);
  EXPECT_EQ(store.seen_version("a"), 10u);
  EXPECT_EQ(store.seen_version("b"), 20u);
  EXPECT_EQ(store.seen_version("c"), 0u);
  store.put(meta("a/q", "w", 12), "x");
  store.progress("b", 25);
  EXPECT_EQ(store.seen_version("a"), 12u);
  EXPECT_EQ(store.seen_version("b"), 25u);
  EXPECT_TRUE(store.put_answer(meta("a/r", "y", 15), "x"));
  EXPECT_FALSE(store.put_answer(meta("b/r", "z", 15), "x"));
  EXPECT_EQ(as_text(store.replace("a", {}, 30)), (Names{"p@4", "q@12", "r@15"}));
  EXPECT_EQ(at(store, "b/p"), "v@4=x") << "of another namespace";
}

TEST(Store, one_watch_of_all_namespaces_counts_for_each) {
  TextStore store;
  store.replace("", {}, 10);
  store.put(meta("a/p", "u", 12), "x");
  EXPECT_EQ(store.seen_version("a"), 12u);
  EXPECT_EQ(store.seen_version("b"), 12u);
  EXPECT_EQ(store.seen_version(""), 12u);
}

TEST(Store, finds_what_a_controller_owns) {
  TextStore store;
  store.put(meta("a/p", "1", 1, "job-1"), "x");
  store.put(meta("a/o", "2", 2, "job-1"), "x");
  store.put(meta("a/q", "3", 3, "job-2"), "x");
  store.put(meta("a/r", "4", 4), "x");
  EXPECT_EQ(as_text(store.owned_by("job-1")), (Names{"o@2", "p@1"}));
  EXPECT_TRUE(store.owned_by("").empty());
  store.put(meta("a/p", "5", 5, "job-2"), "x");  // made anew by another
  EXPECT_EQ(as_text(store.owned_by("job-1")), (Names{"o@2"}));
  EXPECT_EQ(as_text(store.owned_by("job-2")), (Names{"p@5", "q@3"}));
  store.remove(meta("a/o", "2", 6));
  EXPECT_TRUE(store.owned_by("job-1").empty());
  store.replace("", {}, 7);
  EXPECT_TRUE(store.owned_by("job-2").empty());
}

}  // namespace

}  // namespace coxswain::controller
