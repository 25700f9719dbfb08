#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "trainer/contract/error.h"
#include "trainer/launch/host_frames.h"

// What comes over SSH is frames, and orders that can be sent again, or an Error.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace coxswain::launch;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  FrameReader reader(/*greeted=*/size % 2 == 0);
  reader.add(bytes);
  try {
    while (const auto frame = reader.next()) {
      FrameReader again(/*greeted=*/false);
      again.add(to_bytes(*frame));
      if (again.next() != frame) std::abort();
      if (const auto order = parse_host_order(frame->body))
        if (!parse_host_order(to_json(*order))) std::abort();
    }
  } catch (const coxswain::Error& error) {
    if (error.code() != coxswain::ExitCode::kInternal) std::abort();
  }
  return 0;
}
