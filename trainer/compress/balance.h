#pragma once

#include <cstdint>
#include <optional>

namespace coxswain::compress {

// Value. What was measured of some steps of one worker.
struct Measured {
  int steps = 0;
  double encode_seconds = 0;
  double decode_seconds = 0;      // of its own pushes
  double decodings = 1;           // of a server, for each of those: workers / servers
  std::int64_t bytes_spared = 0;  // by the codec
  std::int64_t bytes_pulled = 0;  // exactly, since the first of each step had come,
  double pull_seconds = 0;        // in this time: the speed of the network
  bool operator==(const Measured&) const = default;
};

// Value. Of a step, in seconds: what a codec takes, and what it spares on the network.
struct Balance {
  double taken = 0;
  double spared = 0;
  bool pays() const { return taken <= spared; }
};

// Nullopt: too little is known of the network, whose messages come at once.
std::optional<Balance> balance_of(const Measured& measured);

}  // namespace coxswain::compress
