#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "operator/controller/store.h"
#include "tests/operator/controller/objects.h"
#include "tests/support/test_flags.h"

namespace coxswain::controller {

namespace {

using kube::ObjectMeta;

// The API server: what is there, and the whole history in the order of versions.
struct World {
  struct Event {
    ObjectMeta meta;
    bool deleted = false;
  };
  std::map<std::string, ObjectMeta> objects;
  std::vector<Event> history;
  std::uint64_t version = 100;

  void write(const std::string& key) {
    const auto present = objects.find(key);
    ++version;
    const std::string uid =
        present == objects.end() ? "uid-" + std::to_string(version) : present->second.uid;
    objects[key] = test::meta(key, uid, version, "job-of-" + key);
    history.push_back({objects[key], false});
  }
  std::optional<ObjectMeta> remove(const std::string& key) {
    const auto present = objects.find(key);
    if (present == objects.end()) return std::nullopt;
    const ObjectMeta last = present->second;
    objects.erase(present);
    history.push_back({last, true});
    history.back().meta.resource_version = ++version;
    return last;
  }
};

bool in_scope(const std::string& scope, const ObjectMeta& meta) {
  return scope.empty() || scope == meta.name_space;
}

// One informer's place in the history, and the list that it is taking.
struct Watch {
  std::string scope;
  std::size_t next = 0;
  std::optional<std::pair<std::vector<Store<int>::Entry>, std::uint64_t>> list;
};

// Runs a store beside the world, in any order of watches, lists and answers, and checks its laws
// after each step.
class LawTrial {
 public:
  LawTrial(std::uint64_t seed, const std::vector<std::string>& scopes) : random_(seed) {
    for (const auto& scope : scopes) watches_.push_back({scope, 0, {}});
    for (Watch& watch : watches_) {
      begin_list(watch);
      end_list(watch);
    }
  }

  void run(int steps) {
    for (int i = 0; i < steps && !::testing::Test::HasFailure(); ++i) {
      step();
      check();
    }
    for (Watch& watch : watches_) {
      if (watch.list) end_list(watch);
      while (advance(watch)) check();
    }
    while (!answers_.empty()) {
      deliver();
      check();
    }
    expect_truth();
  }

 private:
  struct Answer {
    ObjectMeta meta;
    bool gone = false;
  };

  std::size_t draw(std::size_t count) { return random_() % count; }

  void step() {
    static const std::vector<std::string> kKeys{"a/p", "a/q", "a/r", "b/p", "b/q"};
    const std::string& key = kKeys[draw(kKeys.size())];
    Watch& watch = watches_[draw(watches_.size())];
    switch (draw(10)) {
      case 0:
      case 1:
        world_.write(key);
        if (draw(2) == 0) answers_.push_back({world_.objects[key], false});
        break;
      case 2:
        if (const auto last = world_.remove(key); last && draw(2) == 0)
          answers_.push_back({*last, true});
        break;
      case 3:
        if (world_.objects.contains(key)) answers_.push_back({world_.objects[key], false});  // GET
        break;
      case 4:
        if (!watch.list && draw(4) == 0) begin_list(watch);
        break;
      case 5:
        if (watch.list) end_list(watch);
        break;
      case 6:
        repeat(watch);
        break;
      case 7:
        if (!answers_.empty()) deliver();
        break;
      default:
        if (!watch.list) advance(watch);
    }
  }

  void begin_list(Watch& watch) {
    watch.list.emplace(std::vector<Store<int>::Entry>(), world_.version);
    for (const auto& [key, meta] : world_.objects)
      if (in_scope(watch.scope, meta)) watch.list->first.push_back({meta, 0});
  }

  void end_list(Watch& watch) {
    store_.replace(watch.scope, watch.list->first, watch.list->second);
    const auto passed = [&](const World::Event& event) {
      return event.meta.resource_version <= watch.list->second;
    };
    // What was made and deleted before the list was never seen, and must not be.
    for (const auto& event : world_.history)
      if (event.deleted && passed(event) && in_scope(watch.scope, event.meta))
        dead_.insert(event.meta.uid);
    while (watch.next < world_.history.size() && passed(world_.history[watch.next])) ++watch.next;
    watch.list.reset();
  }

  bool advance(Watch& watch) {
    while (watch.next < world_.history.size() &&
           !in_scope(watch.scope, world_.history[watch.next].meta))
      ++watch.next;
    if (watch.next == world_.history.size()) return false;
    enter(world_.history[watch.next++]);
    if (draw(5) == 0 && watch.next > 0)
      store_.progress(watch.scope, world_.history[watch.next - 1].meta.resource_version);
    return true;
  }

  void repeat(Watch& watch) {
    if (watch.next == 0) return;
    const std::size_t back = 1 + draw(std::min<std::size_t>(watch.next, 6));
    const auto& event = world_.history[watch.next - back];
    if (in_scope(watch.scope, event.meta)) enter(event);
  }

  void enter(const World::Event& event) {
    if (event.deleted) {
      store_.remove(event.meta);
      dead_.insert(event.meta.uid);
    } else {
      store_.put(event.meta, 0);
    }
  }

  void deliver() {
    const std::size_t which = draw(answers_.size());
    const Answer answer = answers_[which];
    answers_.erase(answers_.begin() + static_cast<std::ptrdiff_t>(which));
    if (answer.gone) {
      store_.remove_answer(answer.meta);
      dead_.insert(answer.meta.uid);
    } else {
      store_.put_answer(answer.meta, 0);
    }
  }

  void check() {
    std::map<std::string, ObjectMeta> present;
    for (const auto& entry : store_.entries()) {
      const std::string key = kube::key_of(entry.meta);
      present[key] = entry.meta;
      EXPECT_FALSE(dead_.contains(entry.meta.uid)) << key << " is back from the dead";
      EXPECT_GE(entry.meta.resource_version, newest_[key]) << key << " went back";
      newest_[key] = entry.meta.resource_version;
      EXPECT_EQ(store_.owned_by("job-of-" + key).size(), 1u) << key;
    }
    for (const auto& [key, meta] : before_)
      if (!present.contains(key) || present[key].uid != meta.uid) dead_.insert(meta.uid);
    before_ = std::move(present);
  }

  void expect_truth() {
    EXPECT_EQ(store_.size(), world_.objects.size());
    for (const auto& [key, meta] : world_.objects) {
      const auto entry = store_.find(key);
      ASSERT_TRUE(entry) << key;
      EXPECT_EQ(entry->meta, meta) << key;
    }
  }

  std::mt19937_64 random_;
  World world_;
  Store<int> store_;
  std::vector<Watch> watches_;
  std::vector<Answer> answers_;                  // on their way
  std::map<std::string, ObjectMeta> before_;     // what the store held after the last step
  std::map<std::string, std::uint64_t> newest_;  // that it has ever held, by key
  std::set<std::string> dead_;                   // uids that it has known to be gone
};

TEST(StoreLaws, never_goes_back_never_resurrects_and_converges) {
  const std::uint64_t first = test::flags().seed_given ? test::flags().seed : 1;
  const std::uint64_t last = test::flags().seed_given ? first : 400;
  for (std::uint64_t seed = first; seed <= last && !HasFailure(); ++seed) {
    SCOPED_TRACE("--seed " + std::to_string(seed));
    LawTrial(seed, {""}).run(200);
    LawTrial(seed, {"a", "b"}).run(200);
  }
}

}  // namespace

}  // namespace coxswain::controller
