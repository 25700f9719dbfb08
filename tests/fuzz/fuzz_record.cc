#include <cstdlib>
#include <vector>

#include "trainer/data/folder_index.h"
#include "trainer/data/record.h"

// Any bytes are a record or a problem, and an index or none; what is read can be written again.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  using namespace coxswain;
  std::vector<std::uint8_t> joined;
  const data::ParsedRecord parsed = data::parse_record({input, size}, joined);
  if (parsed.problem.empty()) {
    std::vector<std::uint8_t> again;
    data::append_record(again, static_cast<std::int32_t>(parsed.record.label), parsed.record.id,
                        parsed.record.image);
    std::vector<std::uint8_t> joined_again;
    const data::ParsedRecord second = data::parse_record(again, joined_again);
    if (!second.problem.empty() || second.record.image.size() != parsed.record.image.size())
      std::abort();
  }
  const std::string_view text{reinterpret_cast<const char*>(input), size};
  const data::ParsedIndex listed = data::parse_index(text);
  if (listed.problem.empty() == listed.positions.empty()) std::abort();
  if (const auto index = data::decode_index({input, size})) {
    if (data::decode_index(data::encode(*index)) != index) std::abort();
  }
  return 0;
}
