#include <gtest/gtest.h>

#include "tests/trainer/ps/async_world.h"
#include "tests/trainer/ps/sync_world.h"

// The laws bite: a protocol with one rule broken is found out.
namespace coxswain::ps {
namespace {

constexpr unsigned kSeeds = 50;

using Passage = SimulatedNetwork::Passage;

net::FrameHead head_of(const Message& message, std::uint64_t length = 0) {
  return {.kind = net::FrameKind::kMessage, .label = label_of(message), .length = length};
}

// `break_rule` of a network, then `run` of its world, with a seed.
template <class MakeWorld, class BreakRule, class Run>
void expect_found(const char* rule, MakeWorld make_world, BreakRule break_rule, Run run) {
  std::optional<std::string> breach;
  unsigned seed = 0;
  for (; !breach && seed < kSeeds; ++seed) {
    const auto world = make_world(seed);
    break_rule(world->network);
    try {
      breach = run(*world);
    } catch (const Error& error) {
      breach = error.what();
    }
  }
  EXPECT_TRUE(breach) << rule << ": survived " << kSeeds << " seeds";
  fmt::print("{:<55} seed {:>2}: {}\n", rule, seed - 1, breach.value_or("survived"));
}

template <class BreakRule>
void expect_found_in_sync(const char* rule, BreakRule break_rule, int kills_in_1000) {
  expect_found(
      rule,
      [](unsigned seed) {
        return std::make_unique<sync_world::World>(3, comm::in_rank_order(2), seed);
      },
      break_rule,
      [kills_in_1000](sync_world::World& world) { return world.run(0, kills_in_1000); });
}

template <class BreakRule>
void expect_found_in_async(const char* rule, BreakRule break_rule,
                           const async_world::World::Troubles& troubles = {},
                           std::int64_t stop = async_world::kSteps) {
  expect_found(
      rule,
      [stop](unsigned seed) {
        return std::make_unique<async_world::World>(2, std::nullopt, 1 << 20, seed, stop);
      },
      break_rule, [troubles](async_world::World& world) { return world.run(troubles); });
}

// Of what is said of a step from `kFirst` on.
constexpr std::int64_t kFirst = 2;

auto loses_one(Say what) {
  return [what](SimulatedNetwork& network) {
    network.meddle = [what, is_lost = false](const Passage& passage) mutable {
      const Message message = message_of(passage.head);
      if (is_lost || message.what != what || message.step < kFirst) return true;
      is_lost = true;
      return false;
    };
  };
}

// A new connection would mend it.
TEST(ProtocolMutants, an_acknowledgement_is_lost) {
  expect_found_in_sync("a copy's acknowledgement is lost", loses_one(Say::kHolds), 0);
  expect_found_in_sync("weights are lost", loses_one(Say::kWeights), 0);
  expect_found_in_async("weights are lost, async", loses_one(Say::kWeights));
}

// Under another number, once it is all there.
TEST(ProtocolMutants, a_push_counts_twice) {
  expect_found_in_async("a push counts twice", [](SimulatedNetwork& network) {
    using Said = std::pair<net::FrameHead, net::Pieces>;
    network.meddle = [&network, pushes = std::map<net::LinkId, std::vector<Said>>()](
                         const Passage& passage) mutable {
      Message message = message_of(passage.head);
      if (message.what != Say::kPush && message.what != Say::kPushed) return true;
      std::vector<Said>& said = pushes[passage.to_end];
      message.step += 1000;
      said.emplace_back(head_of(message, passage.head.length), passage.pieces);
      if (message.what == Say::kPush) return true;
      network.forge(passage.to_end, passage.head, passage.pieces);
      for (const auto& [head, pieces] : said) network.forge(passage.to_end, head, pieces);
      said.clear();
      return false;
    };
  });
}

TEST(ProtocolMutants, a_stale_incarnation_is_taken) {
  expect_found_in_async("a stale incarnation is taken",
                        [](SimulatedNetwork& network) {
                          network.disguise = [](net::Hello hello) {
                            hello.incarnation = 1000;
                            return hello;
                          };
                        },
                        {.deaths = 4000, .old_live = true});
}

// `at`: what a server says to its copy when the copy is made to have acknowledged the step.
auto acknowledges(Say at) {
  return [at](SimulatedNetwork& network) {
    network.meddle = [&network, at](const Passage& passage) {
      const Message message = message_of(passage.head);
      if (message.what == at && message.step >= kFirst)
        network.forge(passage.from_end, head_of({.what = Say::kHolds, .step = message.step + 1}));
      return true;
    };
  };
}

TEST(ProtocolMutants, a_copy_acknowledges_before_it_has_the_sums) {
  expect_found_in_sync("a copy acknowledges before it has the sums", acknowledges(Say::kSums), 10);
}

TEST(ProtocolMutants, weights_are_sent_before_the_copy_has_the_step) {
  expect_found_in_sync("weights are sent before the copy has the step", acknowledges(Say::kCommit),
                       10);
}

TEST(ProtocolMutants, a_push_is_acknowledged_before_the_copy_has_it) {
  expect_found_in_async("a push is acknowledged before the copy has it", acknowledges(Say::kSums),
                        {.kills = 300});
}

// What was leased since is not known to whoever comes back, who cuts before it.
TEST(ProtocolMutants, a_lease_is_told_before_the_copy_has_noted_it) {
  expect_found_in_async(
      "a lease is told before the copy has noted it",
      [](SimulatedNetwork& network) {
        network.meddle = [&network](const Passage& passage) {
          if (message_of(passage.head).what != Say::kMinutes) return true;
          network.forge(passage.from_end, head_of({.what = Say::kNoted}));
          return false;
        };
      },
      {.kills = 300}, 10);
}

TEST(ProtocolMutants, an_update_is_forwarded_twice) {
  expect_found_in_async("an update is forwarded twice", [](SimulatedNetwork& network) {
    using Said = std::pair<net::FrameHead, net::Pieces>;
    network.meddle = [&network, update = std::vector<Said>()](const Passage& passage) mutable {
      const Message message = message_of(passage.head);
      if (message.what == Say::kSums) update.emplace_back(passage.head, passage.pieces);
      if (message.what != Say::kCommit) return true;
      network.forge(passage.to_end, passage.head, passage.pieces);
      update.emplace_back(passage.head, passage.pieces);
      for (const auto& [head, pieces] : std::exchange(update, {}))
        network.forge(passage.to_end, head, pieces);
      return false;
    };
  });
}

TEST(ProtocolMutants, a_lease_is_given_twice) {
  expect_found_in_async("a lease is given twice", [](SimulatedNetwork& network) {
    network.meddle = [&network, other = net::LinkId{0}](const Passage& passage) mutable {
      if (message_of(passage.head).what != Say::kLease) return true;
      if (passage.head.label.sequence % 8 == 0 && other != passage.to_end)
        network.forge(other, passage.head, passage.pieces);
      other = passage.to_end;
      return true;
    };
  });
}

}  // namespace
}  // namespace coxswain::ps
