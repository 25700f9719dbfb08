#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace coxswain::comm {

// Names a started message in Wire::poll.
using MessageId = std::uint64_t;

// View. The memory of one message: pieces, in order.
using Pieces = std::vector<std::span<std::byte>>;

// Value. What a wire has to tell.
struct News {
  std::vector<MessageId> finished;
  std::vector<int> beats;  // peers that were heard
  std::vector<int> ended;  // peers that are gone, and went without a word
};

// One rank's connection to all others. Nothing here blocks. One thread makes, uses and destroys it.
//
// A message is matched by sender, tag and, among equal ones, by order; both sides give the same
// number of bytes, cut into pieces as each likes. The memory belongs to the wire until poll()
// tells the id.
class Wire {
 public:
  virtual ~Wire() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // By rank: a number for the machine that it is on, counted from 0 in rank order. Ranks of one
  // machine reach each other faster than others.
  virtual std::vector<int> machines() const {
    return std::vector<int>(static_cast<std::size_t>(size()), 0);
  }

  virtual void send(int peer, int tag, const Pieces& pieces, MessageId id) = 0;
  virtual void receive(int peer, int tag, const Pieces& pieces, MessageId id) = 0;

  // Tells every peer that this rank lives. Skips a peer that has not taken the one before.
  virtual void send_beats() = 0;

  // Moves data, and tells what has become of it since the last call. Lets other threads run if
  // there is nothing to move: only the wire knows.
  virtual News poll() = 0;

  // The orderly end, together with all peers. A wire destroyed without it just drops them.
  virtual void close() = 0;
};

using OpenWire = std::function<std::unique_ptr<Wire>()>;

}  // namespace coxswain::comm
