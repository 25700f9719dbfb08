#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/net/network.h"
#include "trainer/ps/message.h"
#include "trainer/ps/shard.h"

namespace coxswain::ps {

// View. The arrays of a worker that training with servers reads and writes, in the host's memory.
struct WorkerArrays {
  std::span<float> weights;
  std::vector<std::span<float>> slots;
};

// Value. What a worker knows before it calls.
struct ClientOptions {
  int worker = 0;
  std::vector<net::Address> servers;
  // Seconds: until all servers are there; that one may be away; that one may keep it waiting.
  int startup_deadline = 600;
  int away_deadline = 10;
  int answer_deadline = 300;
};

// One worker's connections to the servers. No thread, no clock, no socket of its own: whoever owns
// the links calls tick() once a second. What is said, and what comes of it, is a subclass's.
class Client : public net::NetworkEvents {
 public:
  explicit Client(ClientOptions options);

  void use(net::Links& links);  // and calls the servers
  // Throws Error(69, 71) naming the servers that are away for too long, or keep this worker
  // waiting; 65 or 71 for what one that refuses it has said.
  void tick();
  bool all_are_there() const;

  std::optional<net::Refusal> admit(net::LinkId link, const net::Hello& theirs) override;
  void joined(net::LinkId link) override;
  std::optional<net::Pieces> place(net::LinkId link, const net::FrameHead& head) override;
  void received(net::LinkId link, const net::FrameHead& head) override;
  void sent(net::LinkId, std::uint64_t) override {}
  void heard(net::LinkId link) override;
  void left(net::LinkId link, const std::string& why) override;
  void not_reached(const net::Address& address, const net::Refusal& refusal) override;

 protected:
  virtual bool waits_for(int server) const = 0;
  // It is there, or there again.
  virtual void server_joined(int server) = 0;
  // Where a message's bytes belong; nullopt: nowhere, any more.
  virtual std::optional<std::span<std::byte>> place_of(int server, const Message& message) = 0;
  virtual void take(int server, const Message& message) = 0;  // they are there

  // Unless it is not there; the memory stays as it is until it has it.
  void say(int server, const Message& message, std::span<const std::byte> bytes = {});
  // What the server begins with: `beginning`, then its pieces of the arrays.
  void say_state(int server, const Plan& plan, const WorkerArrays& arrays, std::int64_t step,
                 std::span<const std::int64_t> beginning);
  [[noreturn]] void refuse(int server, const Message& message) const;
  // The piece of a flat buffer that a server's message is of.
  std::span<std::byte> piece_of(const Plan& plan, std::span<float> all, int server,
                                const Message& message) const;
  int num_servers() const { return static_cast<int>(servers_.size()); }

 private:
  struct Server {
    net::LinkId link = 0;  // 0: none
    bool has_joined = false;
    int silent_ticks = 0;
    int away_ticks = 0;
    int waiting_ticks = 0;
    std::string trouble = "it has not answered";
    std::vector<std::byte> scratch;  // of what belongs nowhere
  };

  void require_prompt(const std::vector<int>& late, ExitCode code, const char* what) const;
  Server& server_of(net::LinkId link) { return servers_[static_cast<std::size_t>(number(link))]; }
  int number(net::LinkId link) const { return number_of_link_.at(link); }
  std::string describe(int server) const;

  const ClientOptions options_;
  net::Links* links_ = nullptr;
  std::vector<Server> servers_;
  std::map<net::LinkId, int> number_of_link_;
  bool have_all_been_there_ = false;
  std::optional<net::Refusal> refused_;
};

}  // namespace coxswain::ps
