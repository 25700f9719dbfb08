#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainer/net/network.h"
#include "trainer/ps/message.h"
#include "trainer/ps/sync_server.h"

namespace coxswain::ps {

// Value. What a server knows before anyone calls.
struct ServerOptions {
  net::Hello hello;  // its rank: which of the servers; its world size: the workers
  std::vector<net::Address> servers;  // all of them, this one too
  comm::ReductionPlan reduction;
  optim::UpdateRule rule;
  int num_slots = 0;
  std::int64_t window = std::int64_t{32} << 20;  // see SyncServer
};

// One server: what comes over its connections, to the state machine, and back. No thread, no clock,
// no socket of its own: whoever owns the links calls tick() once a second.
//
// The first step waits for worker 0 to say what is trained and from where (Beginning, State).
class Server : public net::NetworkEvents, private SyncOutbox {
 public:
  explicit Server(ServerOptions options);

  void use(net::Links& links);  // and calls the servers before this one
  // Beats to all; who was silent for kMostSilentTicks is dropped.
  void tick();

  bool has_begun() const { return floats_missing_ == 0; }
  bool is_alone() const { return workers_.empty(); }
  std::string missing_workers() const;  // "worker 1 (why it left), ..."; empty: none
  std::int64_t step() const { return machine_ ? machine_->step() : 0; }

  std::optional<net::Refusal> admit(net::LinkId link, const net::Hello& theirs) override;
  void joined(net::LinkId link) override;
  std::optional<net::Pieces> place(net::LinkId link, const net::FrameHead& head) override;
  void received(net::LinkId link, const net::FrameHead& head) override;
  void sent(net::LinkId, std::uint64_t) override {}
  void heard(net::LinkId link) override;
  void left(net::LinkId link, const std::string& why) override;
  void not_reached(const net::Address&, const net::Refusal& refusal) override;

  // What another process of the job that does not take this one has said; it is final.
  const std::optional<net::Refusal>& refused() const { return refused_; }

 private:
  struct Peer {
    net::Hello hello;
    bool has_joined = false;
    int silent_ticks = 0;
    std::vector<std::byte> scratch;  // of a message that belongs nowhere else
    bool is_worker() const { return hello.role == kWorker; }
  };

  std::span<std::byte> place_of(Peer& peer, const Message& message);
  std::span<float> state_of(const Message& message);
  void begin(const Beginning& beginning);
  void take_state(const Message& message);
  void send_slots(int worker, std::int64_t step);
  void say(net::LinkId link, const Message& message, std::span<float> floats = {});
  void say_to_workers(std::optional<int> worker, const Message& message, std::span<float> floats);
  void say_to_servers(const Message& message);
  int index() const { return options_.hello.rank; }
  int num_servers() const { return static_cast<int>(options_.servers.size()); }

  void ready(std::int64_t step, bool finite) override;
  void decided(std::int64_t step, bool updated) override;
  void outcome(std::optional<int> worker, std::int64_t step, std::span<float> sums) override;
  void weights(std::optional<int> worker, std::int64_t step, const Piece& piece,
               std::span<float> floats) override;
  void has_room() override;

  static constexpr const char* kWorker = "worker";

  const ServerOptions options_;
  net::Links* links_ = nullptr;
  std::map<net::LinkId, Peer> peers_;
  std::map<int, net::LinkId> workers_;  // that are there
  std::map<int, net::LinkId> servers_;
  std::map<int, std::string> farewells_;  // why a worker left last
  std::optional<net::Refusal> refused_;
  std::unique_ptr<SyncServer> machine_;
  std::optional<Beginning> beginning_;
  std::int64_t floats_missing_ = -1;  // of its state; -1: nothing is known
};

}  // namespace coxswain::ps
