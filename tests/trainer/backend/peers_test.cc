#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "tests/support/model_run.h"
#include "tests/support/peer_values.h"
#include "trainer/backend/onednn/onednn_backend.h"
#include "trainer/backend/reference/reference_backend.h"

// What torch computes of the same small networks, as tests/golden/operations/make.py wrote it down.
namespace coxswain::test {
namespace {

using graph::Builder;

constexpr graph::WeightInit kInit = graph::WeightInit::kXavierUniform;
constexpr std::int64_t kRows = 2;
constexpr graph::Shape kImage{1, 4, 5, 5};
constexpr int kClasses = 3;

struct Peer {
  const char* name;
  std::function<int(Builder&, int)> operation;
  std::vector<std::string> tensors = {};  // its own, in torch's order
};

std::vector<Peer> peers() {
  return {
      {"groups",
       [](Builder& b, int x) { return b.conv(x, "c", 6, 3, 2, 1, true, kInit, 2); },
       {"c.weight", "c.bias"}},
      {"depthwise",
       [](Builder& b, int x) { return b.conv(x, "c", 8, 3, 1, 1, false, kInit, 4); },
       {"c.weight"}},
      {"concat",
       [](Builder& b, int x) {
         const int left = b.relu(b.conv(x, "a", 3, 3, 1, 1, true, kInit));
         return b.concat({left, x, b.conv(x, "b", 5, 1, 1, 0, false, kInit)});
       },
       {"a.weight", "a.bias", "b.weight"}},
      {"sigmoid", [](Builder& b, int x) { return b.sigmoid(x); }},
      {"silu", [](Builder& b, int x) { return b.silu(x); }},
      {"hard_swish", [](Builder& b, int x) { return b.hard_swish(x); }},
      {"hard_sigmoid", [](Builder& b, int x) { return b.hard_sigmoid(x); }},
      {"squeeze_excitation",
       [](Builder& b, int x) {
         const int small = b.relu(b.conv(b.global_avg_pool(x), "a", 2, 1, 1, 0, true, kInit));
         return b.multiply(x, b.hard_sigmoid(b.conv(small, "b", 4, 1, 1, 0, true, kInit)));
       },
       {"a.weight", "a.bias", "b.weight", "b.bias"}},
      {"padded_more_after",
       [](Builder& b, int x) {
         const int y = b.conv(x, "c", 6, 4, 2, 0, true, kInit);
         b.node(y).pad_extra = 1;
         return y;
       },
       {"c.weight", "c.bias"}},
      {"max_pool_rounded_up",
       [](Builder& b, int x) {
         const int y = b.max_pool(x, 2, 2);
         b.node(y).pad_extra = 1;
         return y;
       }},
      {"relu6", [](Builder& b, int x) { return b.relu6(x); }},
      {"gelu", [](Builder& b, int x) { return b.gelu(x); }},
      {"avg_pool", [](Builder& b, int x) { return b.avg_pool(x, 3, 2, 1); }},
      {"avg_pool_counts_padding", [](Builder& b, int x) { return b.avg_pool(x, 3, 2, 1, true); }}};
}

// A byte b is (b - 16) / 4: the quarters from -4 to 4.
void show_images(ModelRun& run) {
  for (std::int64_t i = 0; i < kImage.c * tensor::kPixelValues; ++i)
    run.table[static_cast<std::size_t>(i)] = static_cast<float>(i % tensor::kPixelValues - 16) / 4;
  const std::int64_t plane = kImage.h * kImage.w;
  for (std::int64_t n = 0; n < kRows; ++n) {
    for (std::int64_t c = 0; c < kImage.c; ++c) {
      for (std::int64_t p = 0; p < plane; ++p) {
        const std::int64_t index = (n * kImage.c + c) * plane + p;
        run.bytes[static_cast<std::size_t>((n * plane + p) * kImage.c + c)] =
            static_cast<std::uint8_t>(index * 29 % 33);
      }
    }
  }
  for (std::size_t n = 0; n < run.labels.size(); ++n)
    run.labels[n] = static_cast<std::int32_t>(n % kClasses);
}

void fill(ModelRun& run, const std::string& name, int place, float parts) {
  const tensor::Segment& s = run.segment(name);
  std::vector<float> values(static_cast<std::size_t>(s.elements()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const int value = (29 * static_cast<int>(i) + 13 * place + 7) % 31 - 15;
    values[i] = static_cast<float>(value) / parts;
  }
  std::vector<float> stored(static_cast<std::size_t>(s.stored));
  run.on.from_canonical(s, values, stored);
  run.parameters->memory().write(stored, run.parameters->weights(s));
}

void expect_near(const std::vector<float>& values, const std::vector<double>& expected,
                 const std::string& what) {
  ASSERT_EQ(values.size(), expected.size()) << what;
  double largest = 0;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_NEAR(values[i], expected[i], 1e-5 * largest) << what << ", number " << i;
}

void expect_torch(Backend& backend, const Peer& peer, const PeerValues& expected) {
  Builder b(kImage);
  const int x = peer.operation(b, b.conv(b.input(), "first", 4, 1, 1, 0, true, kInit));
  ModelRun run(backend, b.finish(b.dense(x, "last", kClasses, true, kInit), 0), {.rows = kRows});
  std::vector<std::string> tensors{"first.weight", "first.bias"};
  tensors.insert(tensors.end(), peer.tensors.begin(), peer.tensors.end());
  show_images(run);
  for (std::size_t i = 0; i < tensors.size(); ++i) fill(run, tensors[i], static_cast<int>(i), 16);
  fill(run, "last.weight", 0, 256);
  fill(run, "last.bias", 1, 256);
  const auto want = [&](std::size_t i) { return expected.at(fmt::format("{}.{}", peer.name, i)); };
  const LossSums sums = run.forward();
  EXPECT_NEAR(sums.loss, want(0)[0], 1e-5 * want(0)[0]);
  expect_near(run.executable->fetch(edge_named(run.program, "last")), want(1), "logits");
  run.backward();
  for (std::size_t i = 0; i < tensors.size(); ++i)
    expect_near(run.gradients(tensors[i]), want(2 + i), tensors[i]);
  EXPECT_FALSE(expected.contains(fmt::format("{}.{}", peer.name, 2 + tensors.size())));
}

TEST(BackendPeers, have_the_outputs_and_gradients_of_torch) {
  const PeerValues expected = read_peer_values("tests/golden/operations/torch.txt");
  for (const Peer& peer : peers()) {
    SCOPED_TRACE(peer.name);
    const auto reference = backend::make_reference_backend();
    expect_torch(*reference, peer, expected);
    const auto onednn = backend::make_onednn_backend({});
    expect_torch(*onednn, peer, expected);
  }
}

}  // namespace
}  // namespace coxswain::test
