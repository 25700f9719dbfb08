#include <gtest/gtest.h>

#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "trainer/backend/cuda/cudnn_plan.h"
#include "trainer/backend/cuda/recording.h"
#include "trainer/graph/models/models.h"
#include "trainer/graph/passes.h"

// cuDNN's own planner, for devices that need not be here. Their properties are those that NVIDIA
// publishes (CUDA C++ Programming Guide, table of compute capabilities; the GPUs' data sheets).
namespace coxswain::test {

namespace {

using backend::cuda::Convolution;
using backend::cuda::CudnnDevice;
using backend::cuda::CudnnPlan;
using Json = nlohmann::json;

struct Device {
  const char* name;
  int capability;  // 90: 9.0
  int processors;
  std::int64_t shared_memory;  // of a block, bytes
  std::int64_t memory, cache;  // bytes
};

constexpr std::int64_t kKiB = 1024, kMiB = kKiB * kKiB, kGiB = kKiB * kMiB;
constexpr std::array kDevices = {
    Device{"NVIDIA A100-SXM4-80GB", 80, 108, 163 * kKiB, 80 * kGiB, 40 * kMiB},
    Device{"NVIDIA H200", 90, 132, 227 * kKiB, 141 * kGiB, 50 * kMiB},
    Device{"NVIDIA B200", 100, 148, 227 * kKiB, 180 * kGiB, 126 * kMiB}};

CudnnDevice described(const Device& device) {
  const Json properties{{"deviceName", device.name},
                        {"cudaDeviceId", 0},
                        {"deviceVer", 10 * device.capability},
                        {"driverVer", 13000},
                        {"multiProcessorCount", device.processors},
                        {"warpSize", 32},
                        {"l2CacheSize", device.cache},
                        {"totalGlobalMem", device.memory},
                        {"smClockRateKHz", 1980000},
                        {"memClockRateKHz", 2619000},
                        {"regsPerBlock", 65536},
                        {"maxRegistersPerSM", 65536},
                        {"maxSharedMemoryPerBlock", 48 * kKiB},
                        {"maxSharedMemoryPerBlockOptin", device.shared_memory},
                        {"reservedSharedMemoryPerBlock", kKiB},
                        {"oversizedSharedMemoryPerBlock", 0},
                        {"maxCtasPerSM", 32},
                        {"maxThreadsPerBlock", 1024},
                        {"maxThreadsPerSM", 2048},
                        {"maxGridSize", {2147483647, 65535, 65535}},
                        {"maxBlockSize", {1024, 1024, 64}},
                        {"pciDeviceId", 0},
                        {"isTccDriver", 0},
                        {"supportCoopLaunch", 1}};
  return {.properties = properties.dump(), .capability = device.capability};
}

// Of a training step of 64 images, each once, by its text.
void collect(const graph::Graph& model, Precision precision,
             std::map<std::string, Convolution>& found) {
  const graph::Program program = graph::compile(model, 64, precision, graph::Mode::kTraining);
  for (const graph::Step& step : program.steps) {
    const graph::Node& node = program.graph.nodes[static_cast<std::size_t>(step.node)];
    if (node.op != graph::Op::kConv2d || step.kind == graph::StepKind::kJoinGradients) continue;
    const Convolution convolution = backend::cuda::convolution_of(program, step);
    found.emplace(to_text(convolution), convolution);
  }
}

// As CudnnConvolutions::prepare: what is fused may be done apart.
std::string refusal_of(Convolution convolution, const CudnnDevice& device) {
  if (CudnnPlan(convolution).build(device).empty()) return "";
  convolution.bias = convolution.relu = false;
  return CudnnPlan(convolution).build(device);
}

class CudaPlans : public testing::TestWithParam<std::tuple<Device, Precision>> {};

// Convolutions in groups of the kinds that networks have: MobileNet's, EfficientNet's, ResNeXt's;
// and one that makes the logits.
graph::Graph grouped_model() {
  constexpr auto kInit = graph::WeightInit::kHeNormalIn;
  graph::Builder b({1, 3, 224, 224});
  int x = b.relu(b.batch_norm(b.conv(0, "stem", 32, 3, 2, 1, false, kInit), "n"));
  x = b.conv(x, "depthwise", 32, 3, 1, 1, false, kInit, 32);
  x = b.conv(x, "wide", 96, 1, 1, 0, false, kInit);
  x = b.conv(x, "depthwise_stride", 96, 3, 2, 1, false, kInit, 96);
  x = b.conv(x, "depthwise_5x5", 96, 5, 2, 2, false, kInit, 96);
  x = b.relu(b.conv(x, "biased", 96, 3, 1, 1, true, kInit, 96));
  x = b.conv(x, "wider", 128, 1, 1, 0, false, kInit);
  x = b.conv(x, "resnext", 128, 3, 1, 1, false, kInit, 32);
  x = b.conv(x, "two", 256, 3, 2, 1, false, kInit, 2);
  return b.finish(b.conv(b.global_avg_pool(x), "head", 1000, 1, 1, 0, true, kInit), 0);
}

}  // namespace

TEST_P(CudaPlans, cudnn_has_an_engine_for_each_convolution_of_each_model) {
  const auto& [properties, precision] = GetParam();
  std::map<std::string, Convolution> convolutions;
  for (const graph::ModelInfo& model : graph::models())
    collect(model.build(model.input, model.classes, 0), precision, convolutions);
  EXPECT_GT(convolutions.size(), 100U);
  collect(grouped_model(), precision, convolutions);
  const CudnnDevice device = described(properties);
  for (const auto& [text, convolution] : convolutions)
    EXPECT_EQ(refusal_of(convolution, device), "") << text;
}

// The first that is planned by its name is that of the plan, and no other one is taken for it.
TEST(CudnnPlan, is_made_by_the_engine_that_is_named) {
  const Convolution convolution{
      .x = {64, 64, 56, 56}, .y = {64, 64, 56, 56}, .kernel = 3, .pad = 1, .pad_after = 1};
  const CudnnDevice device = described(kDevices[1]);
  CudnnPlan own(convolution);
  ASSERT_EQ(own.build(device), "");
  const std::vector<std::string> engines = own.engines();
  ASSERT_GT(engines.size(), 2U);
  int planned = 0;
  for (const std::string& engine : engines) {
    CudnnPlan plan(convolution);
    if (!plan.build(device, engine).empty()) continue;
    EXPECT_EQ(plan.engines().front(), engine);
    ++planned;
  }
  EXPECT_GT(planned, 1);
  EXPECT_EQ(CudnnPlan(convolution).build(device, "eng-1"), "no engine is called eng-1");
}

TEST(CudnnPlan, says_what_is_wrong_with_a_device) {
  const Convolution convolution{.x = {1, 1, 8, 8}, .y = {1, 4, 8, 8}, .kernel = 3, .pad = 1};
  EXPECT_NE(CudnnPlan(convolution).build({.properties = "{}", .capability = 90}), "");
}

std::string name_of(const testing::TestParamInfo<CudaPlans::ParamType>& test) {
  const auto& [device, precision] = test.param;
  return "sm_" + std::to_string(device.capability) + "_" + std::string(word(precision));
}

INSTANTIATE_TEST_SUITE_P(Devices, CudaPlans,
                         testing::Combine(testing::ValuesIn(kDevices),
                                          testing::Values(Precision::kFp32, Precision::kBf16,
                                                          Precision::kFp16)),
                         name_of);

}  // namespace coxswain::test
