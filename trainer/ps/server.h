#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/net/network.h"
#include "trainer/ps/message.h"
#include "trainer/ps/push_form.h"
#include "trainer/ps/push_taker.h"
#include "trainer/ps/shard.h"

namespace coxswain::ps {

// Value. What a server knows before anyone calls.
struct ServerOptions {
  net::Hello hello;                   // its rank: which of the servers; its world size: the workers
  std::vector<net::Address> servers;  // all of them, this one too
};

// One server's connections: who is there, and who said what. No thread, no clock, no socket of its
// own: whoever owns the links calls tick() once a second. What is said, and what comes of it, is a
// subclass's.
class Server : public net::NetworkEvents {
 public:
  explicit Server(ServerOptions options) : options_(std::move(options)) {}

  void use(net::Links& links);  // and calls those servers before this one that it talks to
  // Beats to all; who was silent for long is dropped.
  void tick();

  virtual bool has_begun() const = 0;
  virtual std::int64_t step() const = 0;  // that are done
  bool has(int worker) const { return workers_.contains(worker); }
  int connected_workers() const { return static_cast<int>(workers_.size()); }
  std::uint64_t received_bytes() const { return received_bytes_; }
  std::uint64_t sent_bytes() const { return sent_bytes_; }
  // Nobody is there who could go on.
  virtual bool is_stuck() const { return workers_.empty(); }
  std::string missing_workers() const;  // "worker 1 (why it left), ..."; empty: none
  // What another process of the job that does not take this one has said; it is final.
  const std::optional<net::Refusal>& refused() const { return refused_; }

  std::optional<net::Refusal> admit(net::LinkId link, const net::Hello& theirs) override;
  void joined(net::LinkId link) override;
  std::optional<net::Pieces> place(net::LinkId link, const net::FrameHead& head) override;
  void received(net::LinkId link, const net::FrameHead& head) override;
  void sent(net::LinkId, std::uint64_t) override {}
  void heard(net::LinkId link) override;
  void left(net::LinkId link, const std::string& why) override;
  void not_reached(const net::Address&, const net::Refusal& refusal) override;

 protected:
  struct Peer {
    net::Hello hello;
    bool has_joined = false;
    int silent_ticks = 0;
    std::vector<std::byte> scratch;  // of a message that belongs nowhere else
    bool is_worker() const { return hello.role == kWorker; }
    bool leads() const { return is_worker() && hello.rank == 0; }
  };

  // Where a message's bytes belong; nullopt: it waits. May throw Error(71), which ends the link.
  virtual std::optional<std::span<std::byte>> place_of(Peer& peer, const Message& message) = 0;
  virtual void take(Peer& peer, const Message& message) = 0;  // its bytes are there
  virtual void worker_joined(int /*worker*/) {}
  virtual void worker_left(int worker) = 0;
  virtual void server_joined(int server) = 0;
  virtual void server_left(int server) = 0;
  virtual bool talks_to(int /*server*/) const { return true; }  // another one

  // Room in the peer's scratch. Throws Error(71) for more bytes than that.
  static std::span<std::byte> scratch(Peer& peer, const Message& message, std::int64_t most);
  [[noreturn]] static void refuse(const Peer& peer, const Message& message, const char* why);

  // Of a worker's push, plain or encoded: as place_of and take.
  static std::optional<std::span<std::byte>> place_of_push(Peer& peer, const Message& message,
                                                           PushTaker& taker,
                                                           const compress::BlockForm& form);
  static void take_push(Peer& peer, const Message& message, PushTaker& taker,
                        const compress::BlockForm& form);

  // To a process that is there; its memory stays as it is until it has it.
  void say_to_worker(int worker, const Message& message, std::span<float> floats = {});
  void say_to_worker(int worker, const Message& message, std::span<std::byte> bytes);
  void say_to_workers(const Message& message, std::span<float> floats = {});
  void say_to_server(int server, const Message& message, std::span<std::byte> bytes = {});
  void say_to_servers(const Message& message);
  void say_slots(int worker, std::int64_t step, Shard& shard);
  // This process can't go on; serve() throws it.
  void give_up(net::Refusal why) { refused_ = std::move(why); }
  void resume_workers();  // what was told to wait is offered again

  int index() const { return options_.hello.rank; }
  int incarnation() const { return options_.hello.incarnation; }
  Plan plan_of(const Beginning& beginning, int num_slots) const {
    return {beginning.layout, num_slots, ShardMap(beginning.layout, num_servers())};
  }
  int num_servers() const { return static_cast<int>(options_.servers.size()); }
  int num_workers() const { return options_.hello.world_size; }

 private:
  void call(int server);
  static Push push_of(const Peer& peer, const Message& message, const Piece* encoded);
  void say(net::LinkId link, const Message& message, std::span<std::byte> bytes);

  static constexpr const char* kWorker = "worker";
  static constexpr const char* kServer = "server";

  const ServerOptions options_;
  net::Links* links_ = nullptr;
  std::map<net::LinkId, Peer> peers_;
  std::map<int, net::LinkId> workers_;  // that are there
  std::map<int, net::LinkId> servers_;
  std::map<int, std::string> farewells_;  // why a worker left last
  std::uint64_t received_bytes_ = 0;
  std::uint64_t sent_bytes_ = 0;
  std::optional<net::Refusal> refused_;
};

}  // namespace coxswain::ps
