#include "trainer/train/tensor_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trainer/contract/error.h"
#include "trainer/contract/printable.h"

namespace coxswain::train {

namespace {

constexpr std::size_t kMostCharacters = 80;  // of a name in a message

}  // namespace

TensorTable::TensorTable(const std::vector<checkpoint::NamedTensor>& tensors,
                         const std::function<bool(const checkpoint::NamedTensor&)>& wanted) {
  for (const checkpoint::NamedTensor& tensor : tensors)
    if (wanted(tensor)) by_name_[tensor.name] = &tensor;
}

const checkpoint::NamedTensor& TensorTable::take(const std::string& name,
                                                 const tensor::Segment& segment) {
  const auto found = by_name_.find(name);
  if (found == by_name_.end())
    throw Error(ExitCode::kBadInput, fmt::format("[checkpoint] tensor \"{}\" is missing", name));
  const checkpoint::NamedTensor& tensor = *found->second;
  if (tensor.dims != segment.dims)
    throw Error(ExitCode::kBadInput,
                fmt::format("[checkpoint] tensor \"{}\": file {}, model {}", name,
                            fmt::join(tensor.dims, "x"), fmt::join(segment.dims, "x")));
  by_name_.erase(found);
  return tensor;
}

void TensorTable::expect_empty() const {
  if (by_name_.empty()) return;
  throw Error(ExitCode::kBadInput,
              fmt::format("[checkpoint] tensor \"{}\" is not part of this model",
                          printable(by_name_.begin()->first, kMostCharacters)));
}

}  // namespace coxswain::train
