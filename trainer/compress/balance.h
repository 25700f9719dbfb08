#pragma once

#include <cstdint>
#include <optional>

namespace coxswain::compress {

// Value. What was measured of some steps of one rank.
struct Measured {
  int steps = 0;
  double encode_seconds = 0;
  double decode_seconds = 0;
  double decodings = 1;           // for each that was measured: of a server, workers / servers
  std::int64_t bytes_spared = 0;  // by the codec
  std::int64_t network_bytes = 0;  // that came exactly,
  double network_seconds = 0;        // in this time: the speed of the network
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
