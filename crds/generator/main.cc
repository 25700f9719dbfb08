#include <fmt/format.h>

#include <exception>
#include <iostream>
#include <iterator>

#include "crds/generator/crd.h"

// crd_generator <kubernetes.json >trainingjobs.yaml
int main() {
  try {
    const std::string kubernetes{std::istreambuf_iterator<char>(std::cin), {}};
    std::cout << coxswain::crd::crd_text(kubernetes) << std::flush;
    return std::cout ? 0 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "crd_generator: standard input is no kubernetes.json: {}\n", error.what());
    return 65;
  }
}
