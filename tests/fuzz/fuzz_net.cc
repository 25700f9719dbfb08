#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "trainer/contract/error.h"
#include "trainer/net/frame.h"
#include "trainer/net/hello.h"

// What a stranger may send: the head of a frame, a hello, a refusal. What is taken comes back.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace coxswain::net;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  HeadBytes bytes{};
  std::copy_n(reinterpret_cast<const std::byte*>(data), std::min(size, bytes.size()),
              bytes.begin());
  try {
    if (encode(decode(bytes)) != bytes) std::abort();
  } catch (const coxswain::Error&) {
  }
  if (const auto hello = hello_of(text)) {
    if (hello->world_size < 1 || hello->rank < 0) std::abort();  // servers count by themselves
    (void)judge(Hello{}, *hello);
  }
  if (const auto refusal = refusal_of(text); refusal && !refusal_of(to_json(*refusal)))
    std::abort();
  return 0;
}
