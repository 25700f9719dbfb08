#include "trainer/compress/balance.h"

namespace coxswain::compress {

std::optional<Balance> balance_of(const Measured& measured) {
  if (measured.steps == 0 || measured.network_bytes == 0 || measured.network_seconds <= 0)
    return std::nullopt;
  const double seconds_a_byte =
      measured.network_seconds / static_cast<double>(measured.network_bytes);
  const double coding = measured.encode_seconds + measured.decode_seconds * measured.decodings;
  return Balance{coding / measured.steps,
                 static_cast<double>(measured.bytes_spared) * seconds_a_byte / measured.steps};
}

}  // namespace coxswain::compress
