#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/data/dataset.h"
#include "trainer/graph/graph.h"
#include "trainer/train/train_options.h"

namespace coxswain::train {

// First weights that whiten the patches that a convolution sees: Jordan 2024, "94% on CIFAR-10 in
// 3.29 Seconds on a Single GPU" (arXiv:2404.00498), section 3.2. Of `moments`, the mean of patch
// times patch, P x P with P = C*R*S: each direction over the root of its eigenvalue and 5e-4, those
// of the largest first, (filters + 1) / 2 of them; then the negatives of as many as there is room
// for. `filters`, at most 2 P, of P values each.
std::vector<float> whitening_filters(std::span<const double> moments, std::int64_t filters);

// Whether a convolution of the network is to begin so.
bool whitens(const graph::Graph& graph);

// Puts such weights in the place of those in `contents`: of up to 5,000 training images, evenly
// over all, augmented without chance. `notes` gets from how many. Throws as data::DataLoader does.
void whiten(const graph::Graph& graph, const TrainOptions& options, const data::Dataset& training,
            checkpoint::Contents& contents, std::vector<std::string>& notes);

}  // namespace coxswain::train
