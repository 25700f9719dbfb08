#include "tests/support/operation_cases.h"

namespace coxswain::test {

namespace {

using graph::Builder;

constexpr graph::WeightInit kInit = graph::WeightInit::kXavierUniform;

// Squeeze and excitation: each channel times what a small network makes of all means.
int gated(Builder& b, int x, std::int64_t channels, const std::string& name, std::int64_t hidden) {
  const int mean = b.global_avg_pool(x);
  const int small = b.silu(b.conv(mean, name + "1", hidden, 1, 1, 0, true, kInit));
  return b.multiply(x, b.sigmoid(b.conv(small, name + "2", channels, 1, 1, 0, true, kInit)));
}

int with_more_padding(Builder& b, int x, int extra) {
  b.node(x).pad_extra = extra;
  return x;
}

}  // namespace

std::vector<OperationCase> operation_cases() {
  const auto head = [](Builder& b, int x) { return b.dense(b.flatten(x), "head", 7, true, kInit); };
  return {
      {"conv_5x5_one_channel",
       {1, 1, 11, 9},
       [=](Builder& b) { return head(b, b.relu(b.conv(0, "c", 20, 5, 1, 0, true, kInit))); }},
      {"conv_two_layers_odd_channels",
       {1, 3, 9, 9},
       [=](Builder& b) {
         const int x = b.relu(b.conv(0, "c1", 13, 3, 2, 1, true, kInit));
         return head(b, b.tanh(b.conv(x, "c2", 21, 3, 1, 1, false, kInit)));
       }},
      {"conv_pool_chain_odd_channels",
       {1, 2, 18, 18},
       [=](Builder& b) {
         const int x = b.max_pool(b.relu(b.conv(0, "c1", 20, 5, 1, 0, true, kInit)), 2, 2);
         return head(b, b.max_pool(b.relu(b.conv(x, "c2", 9, 3, 1, 0, true, kInit)), 2, 2));
       }},
      {"other_pools_after_a_pool_in_lanes",
       {1, 2, 18, 18},
       [=](Builder& b) {
         const int x = b.max_pool(b.relu(b.conv(0, "c1", 20, 5, 1, 0, true, kInit)), 2, 2);
         return head(b, b.global_avg_pool(b.avg_pool(b.max_pool(x, 3, 1, 1), 2, 2)));
       }},
      {"conv_1x1_stride_2",
       {1, 17, 7, 7},
       [=](Builder& b) {
         const int x = b.conv(0, "c1", 16, 1, 1, 0, false, kInit);
         return head(b, b.conv(x, "c2", 33, 1, 2, 0, false, kInit));
       }},
      {"max_pool_overlapping_padded",
       {1, 5, 9, 7},
       [=](Builder& b) {
         const int x = b.conv(0, "c1", 6, 3, 1, 1, false, kInit);
         return head(b, b.max_pool(x, 3, 2, 1));
       }},
      {"avg_pool_padded",
       {1, 5, 9, 7},
       [=](Builder& b) {
         return head(b, b.avg_pool(b.conv(0, "c1", 6, 3, 1, 1, false, kInit), 3, 2, 1));
       }},
      {"avg_pool_that_counts_padding",
       {1, 5, 9, 7},
       [=](Builder& b) {
         const int x = b.conv(0, "c1", 6, 3, 1, 1, false, kInit);
         return head(b, b.avg_pool(x, 3, 2, 1, /*counts_padding=*/true));
       }},
      {"batch_norm_relu_add",
       {1, 6, 5, 5},
       [=](Builder& b) {
         const int x = b.conv(0, "c1", 11, 3, 1, 1, false, kInit);
         const int y = b.relu(b.batch_norm(x, "n1"));
         return head(b, b.relu(b.add(b.conv(y, "c2", 11, 3, 1, 1, false, kInit), x)));
       }},
      {"batch_norm_tanh",
       {1, 4, 5, 5},
       [=](Builder& b) {
         return head(b, b.tanh(b.batch_norm(b.conv(0, "c1", 10, 3, 1, 1, false, kInit), "n1")));
       }},
      {"batch_norm_of_the_input",
       {1, 3, 6, 6},
       [=](Builder& b) {
         const int x = b.batch_norm(0, "data", 2e-5F, /*fixed_gamma=*/true);
         return head(b, b.conv(x, "c1", 16, 3, 1, 1, false, kInit));
       }},
      {"activations_with_two_readers",
       {1, 4, 5, 5},
       [=](Builder& b) {
         const int x = b.conv(0, "c1", 12, 3, 1, 1, true, kInit);
         return head(b, b.add(b.add(b.relu(x), b.tanh(x)), b.gelu(x)));
       }},
      {"dropout_between",
       {1, 3, 7, 5},
       [=](Builder& b) {
         const int x = b.dropout(b.relu(b.conv(0, "c1", 18, 3, 1, 1, true, kInit)), "d1", 0.25F);
         return b.dense(b.dropout(b.relu(b.dense(b.flatten(x), "f1", 19, true, kInit)), "d2", 0.5F),
                        "f2", 7, true, kInit);
       }},
      {"flatten_before_an_activation",
       {1, 3, 6, 5},
       [=](Builder& b) {
         return head(b, b.tanh(b.flatten(b.conv(0, "c1", 9, 3, 1, 1, true, kInit))));
       }},
      {"conv_in_groups",
       {1, 12, 7, 9},
       [=](Builder& b) {
         const int x = b.relu(b.conv(0, "c1", 18, 3, 1, 1, true, kInit, 3));
         return head(b, b.tanh(b.conv(x, "c2", 64, 1, 2, 0, false, kInit, 2)));
       }},
      {"conv_in_groups_of_a_block",
       {1, 3, 6, 7},
       [=](Builder& b) {
         const int x = b.conv(0, "c1", 64, 3, 1, 1, false, kInit);
         return head(b, b.conv(x, "c2", 32, 3, 2, 1, true, kInit, 2));
       }},
      {"depthwise",
       {1, 3, 9, 8},
       [=](Builder& b) {
         int x = b.conv(0, "c1", 21, 3, 1, 1, false, kInit);
         x = b.relu6(b.batch_norm(b.conv(x, "d1", 21, 3, 1, 1, false, kInit, 21), "n1"));
         x = b.conv(x, "c2", 32, 1, 1, 0, false, kInit);
         x = b.relu(b.conv(x, "d2", 32, 5, 2, 2, true, kInit, 32));
         return head(b, b.conv(x, "d3", 64, 3, 1, 0, true, kInit, 32));
       }},
      {"depthwise_of_a_fixed_norm",
       {1, 16, 6, 6},
       [=](Builder& b) {
         const int x = b.batch_norm(0, "data", 2e-5F, /*fixed_gamma=*/true);
         return head(b, b.conv(x, "c1", 16, 3, 1, 1, false, kInit, 16));
       }},
      {"concat_in_blocks",
       {1, 3, 6, 5},
       [=](Builder& b) {
         const int x = b.conv(0, "c1", 32, 3, 1, 1, true, kInit);
         const int left = b.relu(b.conv(x, "c2", 16, 1, 1, 0, true, kInit));
         const int right = b.relu(b.conv(x, "c3", 48, 3, 1, 1, true, kInit));
         return head(
             b, b.conv(b.max_pool(b.concat({left, right}), 2, 2), "c4", 16, 1, 1, 0, true, kInit));
       }},
      {"concat_odd_channels",
       {1, 3, 6, 7},
       [=](Builder& b) {
         const int x = b.conv(0, "c1", 5, 3, 1, 1, true, kInit);
         const int y = b.concat({x, 0, b.sigmoid(x), x});
         return head(b, b.tanh(b.batch_norm(y, "n1")));
       }},
      {"concat_after_a_pool_in_lanes",
       {1, 2, 18, 18},
       [=](Builder& b) {
         const int x = b.max_pool(b.relu(b.conv(0, "c1", 20, 5, 1, 0, true, kInit)), 2, 2);
         return head(b, b.concat({x, b.avg_pool(x, 3, 1, 1)}));
       }},
      {"concat_of_all_before",
       {1, 3, 5, 5},
       [=](Builder& b) {
         std::vector<int> all{b.conv(0, "stem", 16, 3, 1, 1, false, kInit)};
         for (int layer = 0; layer < 10; ++layer) {
           const std::string name = std::to_string(layer);
           const int x = b.relu(b.batch_norm(b.concat(all), "n" + name));
           all.push_back(b.conv(x, "c" + name, layer < 5 ? 16 : 4, 3, 1, 1, false, kInit));
         }
         return head(b, b.global_avg_pool(b.concat(all)));
       }},
      {"curves",
       {1, 4, 5, 5},
       [=](Builder& b) {
         int x = b.sigmoid(b.conv(0, "c1", 12, 3, 1, 1, true, kInit));
         x = b.silu(b.conv(x, "c2", 17, 3, 1, 1, true, kInit));
         x = b.hard_swish(b.batch_norm(x, "n1"));
         return head(b, b.clip(b.conv(x, "c3", 9, 3, 1, 1, true, kInit), -0.25F, 0.5F));
       }},
      {"curves_with_two_readers",
       {1, 4, 5, 5},
       [=](Builder& b) {
         const int x = b.batch_norm(b.conv(0, "c", 12, 3, 1, 1, true, kInit), "n");
         const int y = b.add(b.sigmoid(x), b.silu(x));
         return head(b, b.add(y, b.add(b.hard_swish(x), b.clip(x, -1, 1))));
       }},
      {"hard_sigmoid",
       {1, 4, 5, 5},
       [=](Builder& b) {
         const int x =
             b.hard_sigmoid(b.batch_norm(b.conv(0, "c1", 17, 3, 1, 1, true, kInit), "n1"));
         return head(b, b.hard_sigmoid(b.conv(x, "c2", 9, 3, 1, 1, true, kInit)));
       }},
      {"gated_channels",
       {1, 3, 7, 6},
       [=](Builder& b) {
         const int x = b.silu(b.batch_norm(b.conv(0, "c1", 32, 3, 1, 1, false, kInit), "n1"));
         return head(b, b.conv(gated(b, x, 32, "s", 8), "c2", 24, 1, 1, 0, true, kInit));
       }},
      {"gated_odd_channels",
       {1, 3, 6, 5},
       [=](Builder& b) {
         const int x = b.conv(0, "c1", 21, 3, 1, 1, true, kInit);
         const int y = gated(b, b.conv(x, "d1", 21, 3, 1, 1, true, kInit, 21), 21, "s", 5);
         return head(b, b.add(gated(b, y, 21, "t", 3), x));
       }},
      {"gated_images",
       {1, 3, 6, 5},
       [=](Builder& b) { return head(b, b.multiply(0, b.sigmoid(b.global_avg_pool(0)))); }},
      {"gated_after_a_pool_in_lanes",
       {1, 2, 18, 18},
       [=](Builder& b) {
         const int x = b.max_pool(b.relu(b.conv(0, "c1", 20, 5, 1, 0, true, kInit)), 2, 2);
         return head(b, gated(b, x, 20, "s", 4));
       }},
      {"products",
       {1, 4, 5, 7},
       [=](Builder& b) {
         const int x = b.conv(0, "c1", 19, 3, 1, 1, true, kInit);
         const int y = b.multiply(b.tanh(b.conv(0, "c2", 19, 3, 1, 1, true, kInit)), b.sigmoid(x));
         const int z = b.dense(b.multiply(y, y), "d1", 12, true, kInit);
         return head(b, b.multiply(z, b.sigmoid(z)));
       }},
      {"padded_more_after",
       {1, 3, 8, 10},
       [=](Builder& b) {
         int x = b.relu(with_more_padding(b, b.conv(0, "c1", 16, 3, 2, 0, true, kInit), 1));
         x = with_more_padding(b, b.conv(x, "d1", 16, 4, 1, 1, false, kInit, 16), 1);
         x = b.batch_norm(with_more_padding(b, b.conv(x, "c2", 20, 5, 2, 1, false, kInit), 1),
                          "n1");
         return head(b, x);
       }},
      {"padded_less_after",
       {1, 3, 8, 7},
       [=](Builder& b) {
         const int x = b.relu(with_more_padding(b, b.conv(0, "c1", 20, 5, 1, 2, true, kInit), -2));
         return head(b, with_more_padding(b, b.max_pool(x, 3, 2, 1), -1));
       }},
      {"stem_padded_more_after",
       {1, 3, 12, 12},
       [=](Builder& b) {
         const int x = b.batch_norm(0, "data", 2e-5F, /*fixed_gamma=*/true);
         return head(b, with_more_padding(b, b.conv(x, "c1", 16, 5, 2, 1, false, kInit), 1));
       }},
      {"pools_padded_more_after",
       {1, 3, 8, 6},
       [=](Builder& b) {
         const int x = b.conv(0, "c1", 18, 3, 1, 1, true, kInit);
         const int largest = with_more_padding(b, b.max_pool(x, 2, 2, 0), 1);
         const int mean = with_more_padding(b, b.avg_pool(x, 2, 2, 0), 1);
         const int counted = with_more_padding(b, b.avg_pool(x, 3, 2, 0, true), 2);
         return head(b, b.concat({largest, mean, counted}));
       }},
      {"conv_logits",
       {1, 3, 6, 6},
       [=](Builder& b) {
         const int x = b.global_avg_pool(b.relu(b.conv(0, "c1", 9, 3, 1, 1, true, kInit)));
         return b.conv(x, "c2", 7, 1, 1, 0, true, kInit);
       }},
      {"global_avg_pool_logits",
       {1, 3, 6, 6},
       [=](Builder& b) { return b.global_avg_pool(b.conv(0, "c1", 7, 3, 1, 1, true, kInit)); }},
  };
}

graph::Graph model_of(const OperationCase& c) {
  Builder builder(c.input);
  const int logits = c.build(builder);
  return builder.finish(logits, 0);
}

}  // namespace coxswain::test
