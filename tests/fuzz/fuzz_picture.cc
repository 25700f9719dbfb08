#include <cstdlib>

#include "trainer/picture/decode.h"

// Any bytes are an image of the size that its header says, or a problem in words.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  using namespace coxswain;
  augment::Scratch pixels;
  for (const picture::DecodeOptions& options :
       {picture::DecodeOptions{}, picture::DecodeOptions{1, true, 4}}) {
    const picture::Decoded measured = picture::measure({input, size}, options);
    // What is large takes long, and does nothing else.
    if (measured.problem.empty() && measured.shape.h * measured.shape.w > 1 << 16) return 0;
    const picture::Decoded decoded = picture::decode({input, size}, options, pixels);
    if (!decoded.problem.empty()) continue;
    if (pixels.size() != static_cast<std::size_t>(decoded.shape.per_sample())) std::abort();
    if (options.least_side == 0 && decoded.shape != measured.shape) std::abort();
  }
  return 0;
}
