#include <gtest/gtest.h>

#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

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

// Of a training step, each once, by its text.
void collect(const graph::ModelInfo& model, std::int64_t batch,
             std::map<std::string, Convolution>& found) {
  const graph::Program program = graph::compile(model.build(model.input, model.classes, 0), batch,
                                                Precision::kFp32, graph::Mode::kTraining);
  for (const graph::Step& step : program.steps) {
    const graph::Node& node = program.graph.nodes[static_cast<std::size_t>(step.node)];
    if (node.op != graph::Op::kConv2d || step.kind == graph::StepKind::kJoinGradients) continue;
    const graph::Node& input = program.graph.nodes[static_cast<std::size_t>(node.inputs[0])];
    const Convolution convolution =
        convolution_of(node, input.shape, backend::cuda::pass_of(step.kind));
    found.emplace(to_text(convolution), convolution);
  }
}

// As CudnnConvolutions::prepare: what is fused may be done apart.
std::string refusal_of(Convolution convolution, const CudnnDevice& device) {
  if (CudnnPlan(convolution).build(device).empty()) return "";
  convolution.bias = convolution.relu = false;
  return CudnnPlan(convolution).build(device);
}

class CudaPlans : public testing::TestWithParam<Device> {};

}  // namespace

TEST_P(CudaPlans, cudnn_has_an_engine_for_each_convolution_of_each_model) {
  std::map<std::string, Convolution> convolutions;
  for (const graph::ModelInfo& model : graph::models()) collect(model, 64, convolutions);
  EXPECT_GT(convolutions.size(), 100U);
  const CudnnDevice device = described(GetParam());
  for (const auto& [text, convolution] : convolutions)
    EXPECT_EQ(refusal_of(convolution, device), "") << text;
}

TEST(CudnnPlan, says_what_is_wrong_with_a_device) {
  const Convolution convolution{.x = {1, 1, 8, 8}, .y = {1, 4, 8, 8}, .kernel = 3, .pad = 1};
  EXPECT_NE(CudnnPlan(convolution).build({.properties = "{}", .capability = 90}), "");
}

INSTANTIATE_TEST_SUITE_P(Devices, CudaPlans, testing::ValuesIn(kDevices), [](const auto& test) {
  return "sm_" + std::to_string(test.param.capability);
});

}  // namespace coxswain::test
