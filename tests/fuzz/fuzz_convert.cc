#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include "operator/convert/convert.h"
#include "operator/job/job_reader.h"

// Any bytes are a command and a hostfile: something is said of them, and what is whole can be read
// again and start.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  using namespace coxswain;
  const std::string text(reinterpret_cast<const char*>(input), size);
  const std::size_t cut = std::min(text.find('\0'), text.size());
  const convert::ReadFile read = [&](const std::string&) { return text.substr(cut); };
  const convert::Converted result =
      convert::from_command({text.substr(0, cut)}, {.name = "", .image = "", .read_file = read});
  if (!convert::is_whole(result)) return 0;
  const job::TrainingJob again = job::read_job(convert::to_yaml(result), "job.yaml");
  if (again.spec != result.job.spec) std::abort();
  return 0;
}
