#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "trainer/compress/codec.h"
#include "trainer/contract/error.h"

// A push of any bytes is an Error, or gradients that can be pushed again.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace coxswain;
  constexpr auto kKinds = words_of(Compression{});
  if (size < 2) return 0;
  const compress::Codec codec{.kind = kKinds[data[0] % kKinds.size()].value, .ratio = 0.1};
  const std::size_t count = data[1];
  const auto bytes = std::as_bytes(std::span(data + 2, size - 2));
  std::vector<float> read(count), again(count), left(count);
  try {
    compress::decode(codec, bytes, read);
  } catch (const Error& error) {
    if (error.code() != ExitCode::kPeerLost) std::abort();
    return 0;
  }
  std::vector<std::byte> said(bytes.size());
  compress::encode(codec, read, left, said, left);
  compress::decode(codec, said, again);
  for (std::size_t i = 0; i < count; ++i)
    if (std::isfinite(read[i]) ? again[i] != read[i] : std::isfinite(again[i])) std::abort();
  return 0;
}
