#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/net/frame.h"
#include "trainer/net/hello.h"

namespace coxswain::net {

struct Address {
  std::string host;
  int port = 0;
};
std::string to_text(const Address& address);  // host:port, [host]:port

// View. The memory of one message: pieces, in order.
using Pieces = std::vector<std::span<std::byte>>;

// A connection; never given twice in the life of a network.
using LinkId = std::int64_t;

// Told by Network::poll of what has come, on the thread that polls. Of a link: admit, joined, what
// it sends, and left, which comes after every admit.
class NetworkEvents {
 public:
  virtual ~NetworkEvents() = default;
  // A process that holds the key and passed judge() is there. A refusal sends it away.
  virtual std::optional<Refusal> admit(LinkId link, const Hello& theirs) = 0;
  virtual void joined(LinkId link) = 0;
  // Where the message's `length` bytes belong; their memory is the network's until received() or
  // left(). Nullopt: it waits, and all behind it, until Network::resume.
  virtual std::optional<Pieces> place(LinkId link, const FrameHead& message) = 0;
  virtual void received(LinkId link, const FrameHead& message) = 0;
  virtual void sent(LinkId link, std::uint64_t message) = 0;   // its memory is the caller's again
  virtual void heard(LinkId link) = 0;                         // a beat
  virtual void left(LinkId link, const std::string& why) = 0;  // empty: both said goodbye
  // It is tried again, until stop_dialing, unless the refusal is final. So it is where a link has
  // left that never joined.
  virtual void not_reached(const Address& address, const Refusal& refusal) = 0;
};

struct NetworkOptions {
  Hello hello;          // this process
  std::string secret;   // 32 bytes that the job's processes share
  bool encrypt = true;  // else the key is proved alike, and what follows is sent in clear
  int port = -1;        // to listen on; 0: any; -1: none
  int descriptor = -1;  // of a socket that listens already, instead of a port
  std::chrono::nanoseconds greeting_deadline = std::chrono::seconds(10);  // from connect to joined
  std::chrono::nanoseconds longest_pause = std::chrono::seconds(1);       // between two calls
};

// What can be done with the connections that there are. Of one that is gone: nothing.
class Links {
 public:
  virtual ~Links() = default;
  // Calls until a link there has joined, or goes on calling. The name is looked up each time.
  virtual void dial(const Address& address) = 0;
  // `id` comes back in sent(). The pieces are the links' until then.
  virtual void send(LinkId link, const Label& label, Pieces pieces, std::uint64_t id) = 0;
  virtual void send_beat(LinkId link) = 0;  // unless something waits to be sent: as good as one
  virtual void drop(LinkId link) = 0;       // the other end; left() does not come
  virtual void resume(LinkId link) = 0;     // place() is asked again for what waits
  virtual bool waits(LinkId link) const = 0;  // something has come that has no place
};

// Resource. This process's connections to others of its job: TCP, both sides proved by the job's
// key (TLS 1.3), introduced by their hellos. Nothing here blocks; one thread makes, uses and
// destroys it.
class Network : public Links {
 public:
  // Throws Error(69) for a port that is taken.
  Network(NetworkOptions options, NetworkEvents& events);
  ~Network() override;
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  int port() const;  // where it listens

  void dial(const Address& address) override;
  void stop_dialing();
  void stop_listening();

  void send(LinkId link, const Label& label, Pieces pieces, std::uint64_t id) override;
  void send_beat(LinkId link) override;
  void drop(LinkId link) override;
  void resume(LinkId link) override;
  bool waits(LinkId link) const override;
  // The orderly end of a link: left() comes when the other has said so too.
  void say_goodbye(LinkId link);

  // Moves what can be moved without waiting. False: there was nothing.
  bool poll();
  // Waits for something to move, as long, or until it is woken.
  void wait(std::chrono::nanoseconds limit);
  void wake();  // on any thread

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace coxswain::net
