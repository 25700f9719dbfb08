#include "trainer/train/agreement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trainer/tensor/fnv1a.h"
#include "trainer/train/model_state.h"

namespace coxswain::train {

std::vector<int> ranks_that_differ(comm::Communicator& communicator, std::uint64_t value) {
  std::uint64_t expected = value;
  communicator.broadcast(std::as_writable_bytes(std::span(&expected, 1)), 0);
  std::vector<float> differs(static_cast<std::size_t>(communicator.size()), 0.0F);
  differs[static_cast<std::size_t>(communicator.rank())] = value == expected ? 0.0F : 1.0F;
  const comm::ReductionPlan plan = comm::in_rank_order(communicator.size());
  communicator.wait(communicator.all_reduce_sum(plan, {{std::span(differs)}, 0}));
  std::vector<int> ranks;
  for (int rank = 0; rank < communicator.size(); ++rank) {
    if (differs[static_cast<std::size_t>(rank)] != 0.0F) ranks.push_back(rank);
  }
  return ranks;
}

std::string broadcast_text(comm::Communicator& communicator, const std::string& text) {
  std::uint64_t bytes = text.size();
  communicator.broadcast(std::as_writable_bytes(std::span(&bytes, 1)), 0);
  std::string result = communicator.rank() == 0 ? text : std::string(bytes, '\0');
  if (bytes > 0) communicator.broadcast(std::as_writable_bytes(std::span(result)), 0);
  return result;
}

tensor::ParameterLayout agreed_layout(comm::Communicator& communicator, backend::Backend& backend,
                                      const graph::Program& training,
                                      std::vector<std::string>& notes) {
  tensor::ParameterLayout native = backend.layout(training, backend::LayoutKind::kNative);
  const auto ranks = ranks_that_differ(communicator, tensor::hash_of(native));
  if (ranks.empty()) return native;
  notes.push_back(
      fmt::format("rank {} lays tensors out differently from rank 0: all use the canonical layout, "
                  "which adds reorders to every step",
                  fmt::join(ranks, ", ")));
  return backend.layout(training, backend::LayoutKind::kCanonical);
}

void compare_fingerprints(comm::Communicator& communicator, const std::string& fingerprint,
                          bool required, std::vector<std::string>& notes) {
  const auto ranks = ranks_that_differ(communicator, tensor::fnv1a(fingerprint));
  if (ranks.empty()) return;
  const std::string what =
      fmt::format("rank {} computes with other numbers than rank 0 (\"{}\" here)",
                  fmt::join(ranks, ", "), fingerprint);
  if (required) {
    throw Error(ExitCode::kBadInput,
                fmt::format("[train] {}: reproducible: anyWorldSize needs equal machines "
                            "and threads",
                            what));
  }
  notes.push_back(what + ": the run can't be repeated bit for bit on other machines");
}

void require_equal_weights(comm::Communicator& communicator, backend::Backend& backend,
                           const backend::Parameters& parameters) {
  const auto ranks = ranks_that_differ(communicator, hash_of_weights(backend, parameters));
  if (ranks.empty()) return;
  throw Error(ExitCode::kInternal, fmt::format("[train] the weights of rank {} are not rank 0's",
                                               fmt::join(ranks, ", ")));
}

}  // namespace coxswain::train
