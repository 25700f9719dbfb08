#include <cstdlib>
#include <vector>

#include "trainer/contract/error.h"
#include "trainer/data/idx.h"

// Any bytes are images, labels, or an Error; what is accepted can be read to its last record.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  using namespace coxswain;
  for (const data::IdxKind kind : {data::IdxKind::kImages, data::IdxKind::kLabels}) {
    try {
      const data::IdxFile file = data::parse_idx({input, input + size}, kind, "input");
      const auto last = file.record(file.count - 1);
      if (last.data() + last.size() != file.bytes.data() + file.bytes.size()) std::abort();
    } catch (const Error& error) {
      if (error.code() != ExitCode::kBadInput) std::abort();
    }
  }
  return 0;
}
