#include "trainer/train/residuals.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/thread_communicator.h"
#include "trainer/backend/onednn/onednn_backend.h"
#include "trainer/contract/error.h"
#include "trainer/graph/models/models.h"
#include "trainer/graph/passes.h"

namespace coxswain::train {
namespace {

using ::testing::HasSubstr;
using Floats = std::vector<float>;

// A network with orders of its own, on as many ranks as a test likes.
class Lab {
 public:
  backend::Backend& backend() { return *backend_; }
  const tensor::ParameterLayout& layout() const { return layout_; }

  // A rank's residuals: a number for each place that a tensor has.
  Floats of(int rank) {
    Floats flat(static_cast<std::size_t>(layout_.size()));
    for (const auto& segment : layout_.segments) {
      if (!tensor::is_trainable(segment.kind)) continue;
      Floats canonical(static_cast<std::size_t>(segment.elements()));
      for (std::size_t i = 0; i < canonical.size(); ++i)
        canonical[i] = static_cast<float>(i % 97) + static_cast<float>(rank) * 1000 + 1;
      backend_->from_canonical(segment, canonical,
                               std::span(flat).subspan(static_cast<std::size_t>(segment.offset),
                                                       static_cast<std::size_t>(segment.stored)));
    }
    return flat;
  }

  checkpoint::Contents saved_by(int ranks) {
    checkpoint::Contents contents;
    contents.state.world_size = ranks;
    test::run_ranks(ranks, [&](comm::Communicator& communicator) {
      const Floats residuals = of(communicator.rank());
      auto tensors = gather_residuals(communicator, *backend_, layout_, residuals);
      EXPECT_EQ(tensors.empty(), communicator.rank() != 0);
      if (communicator.rank() == 0) contents.optimizer = std::move(tensors);
    });
    return contents;
  }

  // Each rank's, after what rank 0 has read.
  std::vector<Floats> restored_on(int ranks, const checkpoint::Contents& contents) {
    std::vector<Floats> all(static_cast<std::size_t>(ranks),
                            Floats(static_cast<std::size_t>(layout_.size()), 77));
    test::run_ranks(ranks, [&](comm::Communicator& communicator) {
      const int rank = communicator.rank();
      restore_residuals(communicator, *backend_, layout_, rank == 0 ? &contents : nullptr,
                        all[static_cast<std::size_t>(rank)]);
    });
    return all;
  }

 private:
  std::unique_ptr<backend::Backend> backend_ = backend::make_onednn_backend({});
  tensor::ParameterLayout layout_ =
      backend_->layout(graph::compile(graph::build_model(Model::kLenet, {1, 1, 28, 28}, 10, 0), 8,
                                      Precision::kFp32, graph::Mode::kTraining),
                       backend::LayoutKind::kNative);
};

TEST(Residuals, come_back_to_their_ranks) {
  Lab lab;
  const auto restored = lab.restored_on(3, lab.saved_by(3));
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_EQ(restored[static_cast<std::size_t>(rank)], lab.of(rank)) << rank;
}

TEST(Residuals, are_all_rank_0s_on_another_number_of_ranks) {
  Lab lab;
  const checkpoint::Contents saved = lab.saved_by(3);
  Floats sum = lab.of(0);
  for (const Floats& of : {lab.of(1), lab.of(2)})
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += of[i];
  for (const int ranks : {1, 2, 4}) {
    const auto restored = lab.restored_on(ranks, saved);
    EXPECT_EQ(restored[0], sum);
    for (std::size_t rank = 1; rank < restored.size(); ++rank)
      EXPECT_EQ(restored[rank], Floats(sum.size())) << rank << " of " << ranks;
  }
}

TEST(Residuals, are_none_after_a_checkpoint_without_them) {
  Lab lab;
  checkpoint::Contents without;
  without.optimizer.push_back({"momentum.conv1.weight", {1}, {1}});
  for (const Floats& restored : lab.restored_on(2, without))
    EXPECT_EQ(restored, Floats(restored.size()));
}

TEST(Residuals, of_another_model_are_refused) {
  Lab lab;
  const checkpoint::Contents saved = lab.saved_by(2);
  const auto refusal = [&](const std::function<void(checkpoint::Contents&)>& spoil) {
    checkpoint::Contents spoiled = saved;
    spoil(spoiled);
    Floats residuals(static_cast<std::size_t>(lab.layout().size()));
    const auto alone = comm::make_solo_communicator();
    try {
      restore_residuals(*alone, lab.backend(), lab.layout(), &spoiled, residuals);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadInput);
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string first = saved.optimizer[0].name;
  EXPECT_EQ(refusal([](auto&) {}), "");
  EXPECT_EQ(refusal([](auto& c) { c.optimizer.erase(c.optimizer.begin()); }),
            fmt::format("[checkpoint] tensor \"{}\" is missing", first));
  EXPECT_EQ(refusal([](auto& c) { c.state.world_size = 1; }),
            "[checkpoint] tensor \"residual.1.conv1.bias\" is not part of this model");
  EXPECT_THAT(refusal([](auto& c) { c.optimizer[0].dims = {1}; }), HasSubstr("file 1, model"));
  EXPECT_THAT(refusal([](auto& c) { c.state.world_size = 3; }), HasSubstr("\"residual.2."));
}

}  // namespace
}  // namespace coxswain::train
