#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "operator/kube/config.h"
#include "operator/kube/exec_credential.h"
#include "operator/kube/server_url.h"
#include "trainer/contract/error.h"

namespace {

using namespace coxswain;

void read_file(std::string_view text) {
  const std::string file =
      std::filesystem::temp_directory_path() / ("fuzz_kubeconfig." + std::to_string(getpid()));
  std::ofstream(file, std::ios::binary) << text;
  try {
    const kube::Config config =
        kube::read_kubeconfig(file, {.allow_insecure = true, .allow_exec = false});
    if (kube::problem_of_server(config.server, true)) std::abort();
  } catch (const Error& error) {
    if (error.code() != ExitCode::kBadInput) std::abort();
  }
  std::filesystem::remove(file);
}

}  // namespace

// Any bytes are a kubeconfig or an Error; the same for what an exec plug-in prints.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(input), size);
  read_file(text);
  try {
    (void)kube::parse_exec_credential(text, {"client.authentication.k8s.io/v1", {"p"}, {}});
  } catch (const Error&) {
  }
  return 0;
}
