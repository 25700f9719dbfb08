#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/trainer/ps/simulated_links.h"
#include "tests/trainer/ps/whole.h"
#include "trainer/compress/block_encoder.h"
#include "trainer/ps/async_client.h"
#include "trainer/ps/async_training.h"

// Asynchronous training, simulated.
namespace coxswain::ps::async_world {

inline constexpr std::int64_t kSteps = 40;
inline constexpr std::int64_t kFence = 13;  // steps between two cuts
inline constexpr int kWorkers = 3;

inline net::Hello hello_of(const char* role, int rank, int incarnation) {
  net::Hello hello;
  hello.role = role;
  hello.rank = rank;
  hello.world_size = kWorkers;
  hello.incarnation = incarnation;
  return hello;
}

inline std::vector<net::Address> addresses(int servers) {
  std::vector<net::Address> all;
  for (int i = 0; i < servers; ++i) all.push_back({"server", 9500 + i});
  return all;
}

// Value. What is trained.
struct Course {
  std::int64_t first = 0;  // step
  std::int64_t steps = kSteps;
  std::int64_t fence = kFence;
  std::int64_t stop_after = kSteps;  // worker 1 asks to stop then
};

// It says ones and zeros as they are.
inline constexpr compress::Codec kTwoBit{.kind = Compression::kTwoBit, .threshold = 1};

// The first pieces of a flat buffer that are of trained weights alone.
inline std::span<const Piece> trained(const std::vector<Piece>& pieces) {
  return std::span(pieces).subspan(1, pieces.size() / 2);
}

// One worker's loop, an act at a time. The gradients of step k are 1 in element k mod
// kSteps of each piece, and the momentum is 1: so the slots count the pushes, whatever the rates.
class Worker {
 public:
  Worker(int rank, const Plan& plan, const Course& course, const compress::Codec& codec = {})
      : rank_(rank),
        course_(course),
        weights(static_cast<std::size_t>(plan.layout.size())),
        gradients_(weights.size()),
        slot_(weights.size()),
        plan_(plan),
        blocks_(plan.map.cut(0, plan.layout.size())),
        encoder_(plan.layout, plan.map.block(), codec),
        client({.worker = rank, .servers = addresses(plan.map.servers())}, nullptr) {}

  bool is_done() const { return phase_ == Phase::kEnded; }

  void act() {
    switch (phase_) {
      case Phase::kNew:
        return begin();
      case Phase::kBeginning:
        if (client.has_all()) start();
        return;
      case Phase::kIdle:
        if (may_begin <= 0) return;
        if (const auto event = client.take_event()) deal_with(*event);
        return;
      case Phase::kPushing:
        return push();
      case Phase::kAnswered:
        if (!client.has_all()) return;
        encoder_.finish_step(true);
        client.done(step_, {.samples = 1, .loss = 2, .correct = 0});
        client.ask_lease();
        phase_ = Phase::kIdle;
        return;
      case Phase::kSaving:
        if (client.has_all()) save();
        return;
      case Phase::kPulling:
        if (client.has_all()) client.end(base_ < course_.steps);
        if (client.has_all()) phase_ = Phase::kIdle;
        return;
      case Phase::kEnded:
        return;
    }
  }

 private:
  enum class Phase { kNew, kBeginning, kIdle, kPushing, kAnswered, kSaving, kPulling, kEnded };

  void begin() {
    const auto standing = client.standing();
    if (!standing) return;
    if (standing->end) {
      phase_ = Phase::kEnded;
      return;
    }
    client.attach(plan_, {.weights = weights, .slots = {slot_}});
    fence_ = standing->fences;
    if (fence_ == 0) {
      base_ = course_.first;
      client.hand_over(base_, base_);
    } else {
      base_ = std::stoll(standing->note);
      client.pull(base_);
    }
    phase_ = Phase::kBeginning;
  }

  void start() {
    if (rank_ == 0 && fence_ == 0) set_fence();
    client.ask_lease();
    client.ask_lease();
    phase_ = Phase::kIdle;
  }

  void set_fence() {
    client.set_fence(++fence_, std::min(base_ + course_.fence, course_.steps),
                     std::to_string(base_));
  }

  void deal_with(const Event& event) {
    if (event.kind == Event::Kind::kEnd) {
      phase_ = Phase::kEnded;
    } else if (event.kind == Event::Kind::kLease) {
      --may_begin;
      step_ = event.step;
      std::ranges::fill(gradients_, 0.0F);
      for (const Piece& block : blocks_)
        if (step_ % kSteps < block.length)
          gradients_[static_cast<std::size_t>(block.offset + step_ % kSteps)] = 1;
      if (rank_ == 1 && step_ >= course_.stop_after) client.cut_now(true);
      client.begin(step_);
      next_block_ = 0;
      phase_ = Phase::kPushing;
    } else {
      if (event.totals.steps != event.step - base_)
        wrong = "the steps that were counted are not those that were made";
      base_ = event.step;
      stops_ = event.stop;
      client.ask_slots();
      phase_ = Phase::kSaving;
    }
  }

  // At a cut, with the slots of all servers.
  void save() {
    check_pushes();
    on_cut(base_);
    phase_ = Phase::kIdle;
    if (!stops_ && base_ < course_.steps) return set_fence();
    client.pull(base_);
    phase_ = Phase::kPulling;
  }

  // Each of the steps that are done has changed each piece once.
  void check_pushes() {
    for (const Piece& piece : trained(blocks_))
      for (std::int64_t i = 0; i < kSteps; ++i) {
        const auto until = [i](std::int64_t step) { return (step - i + kSteps - 1) / kSteps; };
        const auto pushes = static_cast<float>(until(base_) - until(course_.first));
        const float sum = slot_[static_cast<std::size_t>(piece.offset + i)];
        if (sum != pushes && !wrong)
          wrong = fmt::format("{} pushes of {} to {} on server {}, at step {}", sum, pushes, i,
                              piece.server, base_);
      }
  }

  void push() {
    const Piece& block = blocks_[next_block_];
    client.push(
        block.offset,
        encoder_.encode(block.offset, std::span(gradients_)
                                          .subspan(static_cast<std::size_t>(block.offset),
                                                   static_cast<std::size_t>(block.length))));
    if (++next_block_ < blocks_.size()) return;
    client.finish_push(optim::UpdateStep{.lr = 1, .momentum = 1});
    phase_ = Phase::kAnswered;
  }

  const int rank_;
  const Course course_;

 public:
  Floats weights;

 private:
  Floats gradients_;
  Floats slot_;
  const Plan plan_;
  const std::vector<Piece> blocks_;
  compress::BlockEncoder encoder_;

 public:
  AsyncClient client;
  std::int64_t base() const { return base_; }
  int may_begin = std::numeric_limits<int>::max();  // so many steps
  std::function<void(std::int64_t step)> on_cut = [](std::int64_t) {};
  std::optional<std::string> wrong;  // a step that counts not at all, or twice

 private:
  Phase phase_ = Phase::kNew;
  int fence_ = 0;
  bool stops_ = false;
  std::int64_t base_ = 0;
  std::int64_t step_ = 0;
  std::size_t next_block_ = 0;
};

class World {
 public:
  World(int num_servers, std::optional<std::int64_t> staleness, std::int64_t window, unsigned seed,
        std::int64_t stop = kSteps)
      : network(seed), stop_after(stop), plan_(plan_of(num_servers)) {
    if (seed % 2 == 1) codec_ = kTwoBit;
    options_.codec = codec_;
    options_.staleness = staleness;
    options_.window = window;
    options_.num_slots = plan_.num_slots;
    servers.resize(static_cast<std::size_t>(num_servers));
    server_incarnations_.resize(servers.size(), -1);
    for (int i = 0; i < num_servers; ++i) start_server(i);
    for (int i = 0; i < kWorkers; ++i) start_worker(i);
    network.watch = [this](const SimulatedNetwork::Passage& passage) { watch_leases(passage); };
  }

  // In the place of the one before, which may live on without the others.
  void start_worker(int rank, bool old_lives = false) {
    const std::string address = "worker " + std::to_string(rank);
    auto& worker = workers[rank];
    if (old_lives) {
      network.cut_off(address);
      cut_off.push_back(std::move(worker));
    }
    network.remove(address);
    worker = std::make_unique<Worker>(rank, plan_, Course{.stop_after = stop_after}, codec_);
    worker->client.use(
        network.add(address, hello_of("worker", rank, ++incarnations_[rank]), worker->client));
  }

  // In the place of the one before, empty.
  void start_server(int index, bool old_lives = false) {
    const auto i = static_cast<std::size_t>(index);
    const ServerOptions options{hello_of("server", index, ++server_incarnations_[i]),
                                addresses(static_cast<int>(servers.size()))};
    const std::string address = to_text(options.servers[i]);
    if (old_lives) {
      network.cut_off(address);
      old_servers.push_back(std::move(servers[i]));
    }
    network.remove(address);
    servers[i] = std::make_unique<AsyncTraining>(options, options_);
    servers[i]->use(network.add(address, options.hello, *servers[i]));
  }

  bool all_safe() const { return std::ranges::all_of(servers, &AsyncTraining::is_safe); }

  // One of them, if it may.
  void kill_one(bool old_lives) {
    if (!all_safe() || kills == 20) return;  // it must get somewhere in between
    ++kills;
    start_server(static_cast<int>(network.draw(servers.size())), old_lives);
  }

  bool is_done() const {
    return std::ranges::all_of(workers, [](const auto& one) { return one.second->is_done(); });
  }

  // One in so many acts: a connection breaks, a worker dies, a server dies; 0: none does.
  struct Troubles {
    std::size_t breaks = 0;
    std::size_t deaths = 0;
    std::size_t kills = 0;
    bool old_live = false;  // some that were replaced live on
  };

  // What went wrong.
  std::optional<std::string> run(const Troubles& troubles) {
    const auto is_time = [this](std::size_t one_in) {
      return one_in > 0 && network.draw(one_in) == 0;
    };
    const auto lives = [&] { return troubles.old_live && network.draw(2) == 0; };
    for (int turn = 0; !is_done() && !network.breach; ++turn) {
      if (turn == 1'000'000) return "it goes on for ever";
      if (is_time(troubles.breaks)) network.break_one();
      if (is_time(troubles.deaths)) {
        const int rank = static_cast<int>(network.draw(kWorkers));
        if (!workers.at(rank)->is_done()) start_worker(rank, lives());
      }
      if (is_time(troubles.kills)) kill_one(lives());
      if (network.draw(3) > 0) network.happen();
      workers.at(static_cast<int>(network.draw(kWorkers)))->act();
      for (const auto& old : cut_off) old->act();
      for (const auto& server : servers)
        if (server->refused()) return server->refused()->why;
      if (workers.at(0)->wrong) return workers.at(0)->wrong;
    }
    while (!network.breach && servers.size() > 1 && !all_safe() && network.happen()) continue;
    if (network.breach) return network.breach;
    for (const auto& server : servers)
      if (stop_after == kSteps && server->update_count() != kSteps)
        return fmt::format("{} updates of {} steps", server->update_count(), kSteps);
    return std::nullopt;
  }

  // Each of `steps` has changed the weights of all servers, and nothing else has.
  void expect_steps(std::int64_t steps) {
    for (const auto& server : servers) EXPECT_EQ(server->update_count(), steps);
    const Floats& weights = workers.at(0)->weights;
    const std::vector<Piece> pieces = plan_.map.cut(0, plan_.layout.size());
    for (const Piece& piece : trained(pieces))
      for (std::int64_t step = 0; step < kSteps; ++step)
        EXPECT_EQ(weights[static_cast<std::size_t>(piece.offset + step)] < 0, step < steps)
            << "step " << step << " on server " << piece.server;
  }

  SimulatedNetwork network;
  std::vector<std::unique_ptr<AsyncTraining>> servers;
  std::map<int, std::unique_ptr<Worker>> workers;
  std::vector<std::unique_ptr<Worker>> cut_off;  // and live on
  std::vector<std::unique_ptr<AsyncTraining>> old_servers;
  const std::int64_t stop_after;  // worker 1 asks to stop then
  int kills = 0;

 private:
  // A step is one worker's, until it has done it or is lost.
  void watch_leases(const SimulatedNetwork::Passage& passage) {
    const Message message = message_of(passage.head);
    if (message.what == Say::kDone) lease_of_.erase(message.step);
    if (message.what != Say::kLease) return;
    const auto [held, is_new] = lease_of_.try_emplace(message.step, passage.to_end);
    if (!is_new && held->second != passage.to_end && network.has(held->second))
      network.breach = fmt::format("step {} was leased twice", message.step);
    held->second = passage.to_end;
  }

  const Plan plan_;
  compress::Codec codec_;
  AsyncOptions options_;
  std::vector<int> server_incarnations_;
  std::map<int, int> incarnations_;
  std::map<std::int64_t, net::LinkId> lease_of_;  // the worker's end
};

}  // namespace coxswain::ps::async_world
