#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "trainer/contract/error.h"
#include "trainer/graph/passes.h"
#include "trainer/network_file.h"

// Any text is a network of a few layers that compiles, or an Error.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  using namespace coxswain;
  try {
    const NetworkFile network =
        parse_network({reinterpret_cast<const char*>(input), size}, "input");
    const graph::Graph graph =
        graph::build_layers(network.layers, {1, 3, 16, 16}, network.classes, 0);
    graph::compile(graph, 2, Precision::kFp32, graph::Mode::kTraining);
  } catch (const Error& error) {
    if (error.code() != ExitCode::kBadInput) std::abort();
  }
  return 0;
}
