#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "trainer/net/frame.h"
#include "trainer/net/network.h"
#include "trainer/net/stream.h"

namespace coxswain::net {

// Resource. One connection of a network, from the first byte. What fails throws
// boost::system::system_error; what is no frame, Error(71).
struct Link {
  explicit Link(boost::asio::io_context& io);

  boost::asio::ip::tcp::socket& socket() { return stream.socket(); }
  void close();
  // For after a wait: this side may have closed it meanwhile. Throws if so.
  void require_open();

  // Of the greeting: one frame of text.
  boost::asio::awaitable<void> write_text(FrameKind kind, const std::string& text);
  boost::asio::awaitable<FrameHead> read_head();
  boost::asio::awaitable<std::string> read_text(std::uint64_t length);

  struct Outgoing {
    FrameHead head;
    Pieces pieces;
    std::uint64_t id = 0;
  };
  // The first of the queue, in one write: small frames go together. What it returns has left.
  boost::asio::awaitable<std::vector<Outgoing>> write_some();

  LinkId id = 0;
  Stream stream;
  bool is_greeting = true;
  bool is_admitted = false;
  bool waits = false;  // for a place
  bool is_writing = false;
  bool said_goodbye = false;
  bool heard_goodbye = false;
  bool is_dropped = false;
  std::deque<Outgoing> queue;
  boost::asio::steady_timer place_found;
};

using LinkPointer = std::shared_ptr<Link>;

// Resource. Closes a link that is still greeting when the time is over.
class GreetingDeadline {
 public:
  GreetingDeadline(const LinkPointer& link, std::chrono::nanoseconds limit);

 private:
  boost::asio::steady_timer timer_;
};

[[noreturn]] void out_of_turn();  // Error(71): such a frame has no place here

// Why a link has ended, of the other end.
std::string in_words(const boost::system::error_code& error);

}  // namespace coxswain::net
