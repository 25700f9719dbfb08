#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "tests/support/test_flags.h"
#include "tests/trainer/ps/hostile_call.h"
#include "tests/trainer/ps/hostile_callers.h"
#include "tests/trainer/ps/mad_frames.h"
#include "tests/trainer/ps/whole.h"
#include "trainer/contract/error.h"
#include "trainer/ps/client_thread.h"
#include "trainer/ps/serve.h"
#include "trainer/ps/sync_training.h"

namespace coxswain::ps {
namespace {

using namespace std::chrono_literals;

#ifdef __SANITIZE_ADDRESS__
constexpr bool kIsSanitized = true;  // it keeps what is freed, and takes its time
#else
constexpr bool kIsSanitized = false;
#endif
constexpr int kServers = 2, kWorkers = 2;
constexpr int kGradients = 4;  // steps, over and over
const std::string kSecret(32, 'k');
const auto kReduction = comm::in_rank_order(kWorkers);

net::Hello hello_of(const std::string& role, int rank) {
  net::Hello hello;
  hello.job = "uid-1";
  hello.attempt = 3;
  hello.incarnation = role == "worker" ? 2 : 0;
  hello.role = role;
  hello.rank = rank;
  hello.world_size = kWorkers;
  hello.fingerprint = "0123";
  return hello;
}

net::NetworkOptions network_of(const net::Hello& hello) {
  return {.hello = hello, .secret = kSecret, .greeting_deadline = 500ms, .longest_pause = 50ms};
}

// A socket that listens on some port.
int listening() {
  const int descriptor = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(bind(descriptor, reinterpret_cast<sockaddr*>(&place), sizeof place), 0);
  EXPECT_EQ(listen(descriptor, SOMAXCONN), 0);
  return descriptor;
}

net::Address address_of(int descriptor) {
  sockaddr_in place{};
  socklen_t length = sizeof place;
  getsockname(descriptor, reinterpret_cast<sockaddr*>(&place), &length);
  return {"127.0.0.1", ntohs(place.sin_port)};
}

// Servers that serve, and workers that train with them, over real connections.
class World {
 public:
  World() : plan_(plan_of(kServers)) {
    std::vector<int> sockets;
    for (int i = 0; i < kServers; ++i) {
      sockets.push_back(listening());
      addresses_.push_back(address_of(sockets.back()));
    }
    for (int i = 0; i < kServers; ++i)
      servers_.emplace_back(
          [this, i, socket = sockets[static_cast<std::size_t>(i)]] { serve_one(i, socket); });
  }
  ~World() {
    workers_.clear();
    stop_ = true;
  }

  const Plan& plan() const { return plan_; }
  const std::atomic<std::int64_t>& step() const { return step_; }
  std::vector<HostileTarget> targets() const {
    std::vector<HostileTarget> targets;
    for (int i = 0; i < kServers; ++i)
      targets.push_back({addresses_[static_cast<std::size_t>(i)], hello_of("worker", 0),
                         hello_of("worker", 1), hello_of("server", 1 - i)});
    return targets;
  }

  int turns() const { return turns_; }

  void add_worker() {
    const int rank = static_cast<int>(workers_.size());
    workers_.push_back(std::make_unique<Worker>(plan_, addresses_, rank));
    workers_.back()->client.await_servers();
    if (rank == 0) workers_.back()->client.hand_over(0, 0);
  }

  void make_step() {
    for (const auto& worker : workers_) worker->begin(step_);
    for (const auto& worker : workers_) worker->client.finish_step();
    ++step_;
  }

  const Floats& weights(int worker) const {
    return workers_[static_cast<std::size_t>(worker)]->weights;
  }

 private:
  struct Worker {
    Worker(const Plan& plan, const std::vector<net::Address>& servers, int its_rank)
        : rank(its_rank),
          blocks(plan.map.cut(0, plan.layout.size())),
          weights(static_cast<std::size_t>(plan.layout.size()), 0.5F),
          slot(weights.size()),
          client(network_of(hello_of("worker", rank)), {.worker = rank, .servers = servers}, plan,
                 {.weights = weights, .slots = {slot}}, {}) {
      std::fill(weights.end() - tensor::kControlFloats, weights.end(), 0.0F);
    }
    void begin(std::int64_t step) {
      client.begin(step, rank == 0 ? std::optional(terms_of(step)) : std::nullopt);
      gradients = gradients_of(step % kGradients, rank);
      for (const Piece& block : blocks)
        client.push(block.offset, rank,
                    std::span(gradients).subspan(static_cast<std::size_t>(block.offset),
                                                 static_cast<std::size_t>(block.length)));
    }
    const int rank;
    const std::vector<Piece> blocks;
    Floats weights, slot, gradients;
    ClientThread client;  // last: it uses what stands above
  };

  void serve_one(int index, int descriptor) {
    net::NetworkOptions network = network_of(hello_of("server", index));
    network.descriptor = descriptor;
    SyncTraining server({network.hello, addresses_},
                        {.reduction = kReduction, .rule = kRule, .num_slots = 1});
    ServeOptions options;
    if (index == 0) options.on_turn = [this](const Server&) { ++turns_; };
    try {
      serve(network, server, options, stop_);
    } catch (const Error& error) {
      ADD_FAILURE() << "server " << index << ": " << error.what();
    }
  }

  const Plan plan_;
  std::vector<net::Address> addresses_;
  std::atomic<bool> stop_ = false;
  std::atomic<std::int64_t> step_ = 0;
  std::atomic<int> turns_ = 0;  // of server 0
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::jthread> servers_;
};

std::ptrdiff_t open_files() {
  using Directory = std::filesystem::directory_iterator;
  return std::distance(Directory("/proc/self/fd"), Directory());
}

long resident_kib() {
  std::ifstream statm("/proc/self/statm");
  long size = 0, resident = 0;
  statm >> size >> resident;
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

// Training goes on meanwhile, if it can.
void attack(World& world, int calls, bool trains) {
  HostileCallers callers(world.targets(), kSecret, world.plan(), world.step(), calls,
                         static_cast<unsigned>(test::flags().seed));
  while (!callers.are_done()) {
    if (trains)
      world.make_step();
    else
      std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(callers.count(), calls);
  EXPECT_THAT(callers.complaints(), testing::IsEmpty());
}

long allocated_kib() {
  const auto heap = mallinfo2();
  return static_cast<long>((heap.uordblks + heap.hblkhd) / 1024);
}

TEST(Hostile, ten_thousand_callers_change_nothing) {
  constexpr int kFirst = 1'000;
  World attacked;
  attacked.add_worker();
  attack(attacked, kFirst, /*trains=*/false);  // nobody takes the place of the other worker again
  attacked.add_worker();
  attack(attacked, kFirst, /*trains=*/true);
  const auto files = open_files();
  const long allocated = allocated_kib(), resident = resident_kib();
  attack(attacked, kIsSanitized ? kFirst : 10'000 - 2 * kFirst, /*trains=*/true);
  for (int i = 0; i < 2000 && open_files() > files; ++i) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(open_files(), files);
  EXPECT_LT(allocated_kib() - allocated, 1 << 10);
  EXPECT_LT(resident_kib() - resident, kIsSanitized ? 1 << 20 : 16 << 10);
  fmt::print("{} steps, {} KiB allocated, {} more, {} KiB resident, {} more\n",
             attacked.step().load(), allocated, allocated_kib() - allocated, resident,
             resident_kib() - resident);

  World calm;
  for (int i = 0; i < kWorkers; ++i) calm.add_worker();
  while (calm.step() < attacked.step()) calm.make_step();
  for (int i = 0; i < kWorkers; ++i) EXPECT_EQ(attacked.weights(i), calm.weights(i));
}

// They call as fast as they can, and say nothing.
class Flood {
 public:
  explicit Flood(const std::vector<HostileTarget>& targets) {
    for (const HostileTarget& target : targets)
      threads_.emplace_back([address = target.address](const std::stop_token& stop) {
        std::deque<Call> calls;
        while (!stop.stop_requested()) {
          if (calls.size() == kMostOpen) calls.pop_front();
          calls.emplace_back(address);
        }
      });
  }

 private:
  static constexpr std::size_t kMostOpen = 500;  // many more than a network greets
  std::vector<std::jthread> threads_;
};

TEST(Hostile, workers_come_in_and_train_through_a_flood) {
  World world;
  const Flood flood(world.targets());
  for (int i = 0; i < kWorkers; ++i) world.add_worker();
  for (int i = 0; i < 100; ++i) world.make_step();
}

// In the place of the worker that has not come yet.
TEST(Hostile, who_never_stops_talking_keeps_nobody_waiting) {
  World world;
  const HostileTarget target = world.targets()[0];
  const Tls tls(target.worker.job, kSecret);
  Call call(target.address);
  call.join(tls, target.worker);
  const std::jthread talker([&call](const std::stop_token& stop) {
    std::string beats;
    for (int i = 0; i < 10'000; ++i) beats += bytes_of({.kind = net::FrameKind::kBeat});
    while (!stop.stop_requested()) call.say(beats);
  });
  world.add_worker();
  const int before = world.turns();
  for (int i = 0; i < 2000 && world.turns() < before + 2; ++i) std::this_thread::sleep_for(10ms);
  EXPECT_GE(world.turns(), before + 2);
  world.add_worker();
  world.make_step();
}

}  // namespace
}  // namespace coxswain::ps
