#include <cstdlib>
#include <string_view>

#include "trainer/checkpoint/format.h"
#include "trainer/contract/error.h"

// Any bytes are a manifest that encodes to the same bytes, a state whose text is its own fixed
// point, or an Error.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  using namespace coxswain;
  using namespace coxswain::checkpoint;
  const std::string_view text(reinterpret_cast<const char*>(input), size);
  try {
    if (encode(decode_manifest(text, "input")) != text) std::abort();
  } catch (const Error& error) {
    if (error.code() != ExitCode::kBadInput) std::abort();
  }
  try {
    const std::string once = encode(decode_state(text, "input"));
    if (encode(decode_state(once, "input")) != once) std::abort();
  } catch (const Error& error) {
    if (error.code() != ExitCode::kBadInput) std::abort();
  }
  return 0;
}
