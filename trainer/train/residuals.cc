#include "trainer/train/residuals.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "trainer/train/tensor_table.h"

namespace coxswain::train {

namespace {

constexpr std::string_view kPrefix = "residual.";

using checkpoint::NamedTensor;
using tensor::ParameterLayout;
using tensor::Segment;

// One rank's, tensor after tensor, in canonical order.
using Canonical = std::vector<float>;

// Calls `visit` with each trainable segment and its part of `canonical`.
template <typename Floats, typename Visit>
void for_each_part(const ParameterLayout& layout, Floats& canonical, const Visit& visit) {
  std::size_t at = 0;
  for (const Segment& segment : layout.segments) {
    if (!tensor::is_trainable(segment.kind)) continue;
    const auto elements = static_cast<std::size_t>(segment.elements());
    visit(segment, std::span(canonical).subspan(at, elements));
    at += elements;
  }
}

template <typename Float>
std::span<Float> stored(std::span<Float> flat, const Segment& segment) {
  return flat.subspan(static_cast<std::size_t>(segment.offset),
                      static_cast<std::size_t>(segment.stored));
}

Canonical empty_of(const ParameterLayout& layout) {
  return Canonical(static_cast<std::size_t>(layout.parameter_count()));
}

std::string name_of(int rank, const Segment& segment) {
  return fmt::format("{}{}.{}", kPrefix, rank, segment.name);
}

void append(int rank, const ParameterLayout& layout, Canonical& canonical,
            std::vector<NamedTensor>& tensors) {
  for_each_part(layout, canonical, [&](const Segment& segment, std::span<const float> part) {
    tensors.push_back({name_of(rank, segment), segment.dims, {part.begin(), part.end()}});
  });
}

// Of every rank that saved; empty: none did.
std::vector<Canonical> read(const checkpoint::Contents& contents, const ParameterLayout& layout) {
  if (std::ranges::none_of(contents.optimizer, is_residual)) return {};
  TensorTable table(contents.optimizer, is_residual);
  std::vector<Canonical> of_ranks;
  for (int rank = 0; rank < contents.state.world_size; ++rank) {
    Canonical& canonical = of_ranks.emplace_back(empty_of(layout));
    for_each_part(layout, canonical, [&](const Segment& segment, std::span<float> part) {
      std::ranges::copy(table.take(name_of(rank, segment), segment).values, part.begin());
    });
  }
  table.expect_empty();
  return of_ranks;
}

// What has not been sent yet stays to be sent.
void add_up(std::vector<Canonical>& of_ranks) {
  for (std::size_t rank = 1; rank < of_ranks.size(); ++rank)
    for (std::size_t i = 0; i < of_ranks[0].size(); ++i) of_ranks[0][i] += of_ranks[rank][i];
  of_ranks.resize(1);
}

}  // namespace

bool is_residual(const NamedTensor& tensor) { return tensor.name.starts_with(kPrefix); }

std::vector<NamedTensor> gather_residuals(comm::Communicator& communicator,
                                          backend::Backend& backend, const ParameterLayout& layout,
                                          std::span<const float> residuals) {
  const bool leads = communicator.rank() == 0;
  std::vector<NamedTensor> tensors;
  Canonical canonical = empty_of(layout);
  for (int rank = 0; rank < communicator.size(); ++rank) {
    if (rank == communicator.rank())
      for_each_part(layout, canonical, [&](const Segment& segment, std::span<float> part) {
        backend.to_canonical(segment, stored(residuals, segment), part);
      });
    if (rank > 0) communicator.broadcast(std::as_writable_bytes(std::span(canonical)), rank);
    if (leads) append(rank, layout, canonical, tensors);
  }
  return tensors;
}

std::function<checkpoint::Contents()> with_residuals(std::function<checkpoint::Contents()> tensors,
                                                     std::vector<NamedTensor> residuals) {
  return [tensors = std::move(tensors), residuals = std::move(residuals)] {
    checkpoint::Contents contents = tensors();
    contents.optimizer.insert(contents.optimizer.end(), residuals.begin(), residuals.end());
    return contents;
  };
}

void restore_residuals(comm::Communicator& communicator, backend::Backend& backend,
                       const ParameterLayout& layout, const checkpoint::Contents* contents,
                       std::span<float> residuals) {
  std::vector<Canonical> of_ranks;
  if (contents != nullptr) of_ranks = read(*contents, layout);
  if (std::ssize(of_ranks) > 1 && std::ssize(of_ranks) != communicator.size()) add_up(of_ranks);
  auto known = static_cast<std::int64_t>(of_ranks.size());
  communicator.broadcast(std::as_writable_bytes(std::span(&known, 1)), 0);
  std::ranges::fill(residuals, 0.0F);
  for (int rank = 0; rank < known; ++rank) {
    Canonical canonical = communicator.rank() == 0
                              ? std::move(of_ranks[static_cast<std::size_t>(rank)])
                              : empty_of(layout);
    if (rank > 0) communicator.broadcast(std::as_writable_bytes(std::span(canonical)), 0);
    if (rank != communicator.rank()) continue;
    for_each_part(layout, canonical, [&](const Segment& segment, std::span<const float> part) {
      backend.from_canonical(segment, part, stored(residuals, segment));
    });
  }
}

}  // namespace coxswain::train
