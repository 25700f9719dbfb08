#pragma once

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tests/trainer/ps/simulated_links.h"
#include "tests/trainer/ps/whole.h"
#include "trainer/compress/block_encoder.h"
#include "trainer/ps/sync_client.h"
#include "trainer/ps/sync_training.h"

// Synchronous training, simulated.
namespace coxswain::ps::sync_world {

inline net::Address address_of(int server) { return {"server", 9500 + server}; }

inline net::Hello hello_of(const char* role, int rank, int workers) {
  net::Hello hello;
  hello.role = role;
  hello.rank = rank;
  hello.world_size = workers;
  return hello;
}

inline std::vector<net::Address> addresses(int servers) {
  std::vector<net::Address> all;
  for (int i = 0; i < servers; ++i) all.push_back(address_of(i));
  return all;
}

inline constexpr std::int64_t kSteps = 5;
inline constexpr std::int64_t kGradients = 16;  // steps, over and over

// Value. What is trained, and from where.
struct Course {
  std::int64_t first = 0;  // step
  std::int64_t end = kSteps;
  std::int64_t save_every = kSteps;  // steps
  Floats weights = {};               // as of the first step; empty: as at the beginning
  Floats slot = {};
};

// One worker's loop, an act at a time.
class Worker {
 public:
  Worker(int rank, const Plan& plan, const comm::ReductionPlan& reduction, const Course& course,
         const compress::Codec& codec = {})
      : rank_(rank),
        plan_(plan),
        reduction_(reduction),
        course_(course),
        weights_(static_cast<std::size_t>(plan.layout.size()), 0.5F),
        slot_(weights_.size()),
        blocks_(plan.map.cut(0, plan.layout.size())),
        encoder_(plan.layout, plan.map.block(), codec),
        client_({.worker = rank, .servers = addresses(plan.map.servers())}, plan,
                {.weights = weights_, .slots = {slot_}}),
        step_(course.first) {
    std::fill(weights_.end() - tensor::kControlFloats, weights_.end(), 0.0F);
    std::ranges::copy(course.weights, weights_.begin());
    std::ranges::copy(course.slot, slot_.begin());
    parts_.resize(
        static_cast<std::size_t>(reduction.parts_of_rank[static_cast<std::size_t>(rank)]));
  }

  SyncClient& client() { return client_; }
  const Floats& weights() const { return weights_; }
  const Floats& slot() const { return slot_; }
  bool is_done() const { return step_ == course_.end && is_between_steps(); }
  std::int64_t step() const { return step_; }  // that are done
  bool is_between_steps() const { return phase_ == Phase::kBetween; }

  // `all_begun`: the barrier before the first step.
  void act(bool& all_begun) {
    switch (phase_) {
      case Phase::kNew:
        if (rank_ == 0) client_.hand_over(step_, step_);
        phase_ = Phase::kHandingOver;
        return;
      case Phase::kHandingOver:
        if (rank_ == 0 && client_.has_all()) all_begun = true;
        if (all_begun) phase_ = Phase::kBetween;
        return;
      case Phase::kBetween:
        if (step_ < std::min(may_begin_below, course_.end)) begin();
        return;
      case Phase::kPushing:
        return push();
      case Phase::kWaiting:
        if (!client_.has_all()) return;
        outcomes.push_back(client_.outcome());
        encoder_.finish_step(client_.outcome()[backend::kUpdated] > 0);
        if (step_ + 1 == exact_from) encoder_.push_exactly();
        ++step_;
        if (rank_ == 0 && step_ % course_.save_every == 0) client_.ask_slots();
        phase_ = Phase::kSaving;
        return;
      case Phase::kSaving:
        if (!client_.has_all()) return;
        if (step_ % course_.save_every == 0)
          saved = {step_, course_.end, course_.save_every, weights_, slot_};
        phase_ = Phase::kBetween;
        return;
    }
  }

  std::int64_t may_begin_below = std::numeric_limits<std::int64_t>::max();
  Course saved;                  // to go on from
  std::int64_t exact_from = -1;  // the first step that is pushed without the codec
  std::vector<backend::ControlFloats> outcomes;

 private:
  enum class Phase { kNew, kHandingOver, kBetween, kPushing, kWaiting, kSaving };

  void begin() {
    client_.begin(step_, rank_ == 0 ? std::optional(terms_of(step_)) : std::nullopt);
    for (std::size_t i = 0; i < parts_.size(); ++i)
      parts_[i] =
          gradients_of(step_ % kGradients, reduction_.first_part(rank_) + static_cast<int>(i));
    next_block_ = 0;
    phase_ = Phase::kPushing;
  }

  void push() {
    const Piece& block = blocks_[next_block_];
    for (std::size_t i = 0; i < parts_.size(); ++i)
      client_.push({block.offset, reduction_.first_part(rank_) + static_cast<int>(i),
                    encoder_.encode(block.offset, std::span(parts_[i]).subspan(
                                                      static_cast<std::size_t>(block.offset),
                                                      static_cast<std::size_t>(block.length)))});
    if (++next_block_ == blocks_.size()) phase_ = Phase::kWaiting;
  }

  const int rank_;
  const Plan plan_;
  const comm::ReductionPlan reduction_;
  const Course course_;
  Floats weights_;
  Floats slot_;
  const std::vector<Piece> blocks_;
  std::vector<Floats> parts_;
  compress::BlockEncoder encoder_;
  SyncClient client_;
  Phase phase_ = Phase::kNew;
  std::int64_t step_;
  std::size_t next_block_ = 0;
};

class World {
 public:
  World(int servers, const comm::ReductionPlan& reduction, unsigned seed,
        const compress::Codec& codec = {})
      : network(seed), plan_(plan_of(servers)), reduction_(reduction), codec_(codec) {
    const int num_workers = static_cast<int>(reduction.parts_of_rank.size());
    servers_.resize(static_cast<std::size_t>(servers));
    incarnations_.resize(servers_.size(), -1);
    for (int i = 0; i < servers; ++i) start_server(i);
    for (int i = 0; i < num_workers; ++i) {
      workers.push_back(std::make_unique<Worker>(i, plan_, reduction, Course{}, codec));
      workers.back()->client().use(network.add("worker " + std::to_string(i),
                                               hello_of("worker", i, num_workers),
                                               workers.back()->client()));
    }
  }

  bool is_done() const { return std::ranges::all_of(workers, &Worker::is_done); }

  // In the place of the one before.
  void start_server(int index) {
    const auto i = static_cast<std::size_t>(index);
    ServerOptions options{
        hello_of("server", index, static_cast<int>(reduction_.parts_of_rank.size())),
        addresses(static_cast<int>(servers_.size()))};
    options.hello.incarnation = ++incarnations_[i];
    auto server = std::make_unique<SyncTraining>(options, SyncOptions{.reduction = reduction_,
                                                                      .rule = kRule,
                                                                      .num_slots = 1,
                                                                      .codec = codec_,
                                                                      .window = 1 << 14});
    net::Links& links = network.add(to_text(address_of(index)), options.hello, *server);
    servers_[i] = std::move(server);
    servers_[i]->use(links);
  }

  bool all_safe() const { return std::ranges::all_of(servers_, &SyncTraining::is_safe); }
  const SyncTraining& server(int index) const { return *servers_[static_cast<std::size_t>(index)]; }

  // One of them dies and comes back empty, if it may.
  void kill_one() {
    if (!all_safe() || kills == 20) return;  // it must get somewhere in between
    ++kills;
    start_server(static_cast<int>(network.draw(servers_.size())));
  }

  // Until all workers are done. What went wrong; `whole`: what one process comes to.
  std::optional<std::string> run(int breaks_in_1000, int kills_in_1000,
                                 Whole whole = Whole(plan_of(1))) {
    bool all_begun = false;
    for (int turn = 0; !is_done() && !network.breach; ++turn) {
      if (turn == 300'000) return "stuck";
      workers[static_cast<std::size_t>(network.draw(workers.size()))]->act(all_begun);
      network.happen();
      if (network.draw(1000) < breaks_in_1000) network.break_one();
      if (network.draw(1000) < kills_in_1000) kill_one();
      for (const auto& server : servers_)
        if (server->refused()) return server->refused()->why;
    }
    return network.breach ? network.breach : compare(whole);
  }

  int kills = 0;

  SimulatedNetwork network;
  std::vector<std::unique_ptr<Worker>> workers;

 private:
  std::optional<std::string> compare(Whole& whole) const {
    for (std::int64_t step = 0; step < kSteps; ++step) whole.make(step, reduction_);
    for (const auto& worker : workers) {
      if (worker->weights() != whole.weights) return "the weights differ";
      if (worker->outcomes != workers[0]->outcomes) return "the outcomes differ";
    }
    if (workers[0]->slot() != whole.slot) return "the slots differ";
    return std::nullopt;
  }

  const Plan plan_;
  const comm::ReductionPlan reduction_;
  const compress::Codec codec_;
  std::vector<std::unique_ptr<SyncTraining>> servers_;
  std::vector<int> incarnations_;
};

}  // namespace coxswain::ps::sync_world
