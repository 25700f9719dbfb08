#include <cstdlib>
#include <span>

#include "trainer/contract/error.h"
#include "trainer/data/cifar10.h"

// Any bytes are whole records with labels of 0..9, or an Error.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  using namespace coxswain;
  try {
    data::check_cifar10(std::span(input, size), "input");
    if (size == 0 || size % data::kCifarRecord != 0) std::abort();
    for (std::size_t i = 0; i < size; i += data::kCifarRecord) {
      if (input[i] >= data::kCifarClasses) std::abort();
    }
  } catch (const Error& error) {
    if (error.code() != ExitCode::kBadInput) std::abort();
  }
  return 0;
}
