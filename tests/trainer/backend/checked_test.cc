#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/support/model_run.h"
#include "trainer/backend/checked_backend.h"
#include "trainer/backend/reference/reference_backend.h"
#include "trainer/contract/error.h"
#include "trainer/graph/models/models.h"
#include "trainer/tensor/host_span.h"

namespace coxswain::backend {
namespace {

using tensor::host_span;
using test::edge_named;
using test::ModelRun;
using ::testing::HasSubstr;

using Spoil = std::function<void(Executable&, int step, Parameters&)>;

// The reference with one fault, done after each step.
class WrongExecutable : public Executable {
 public:
  WrongExecutable(std::unique_ptr<Executable> inner, Parameters& parameters,
                  Spoil spoil)
      : inner_(std::move(inner)), parameters_(parameters), spoil_(std::move(spoil)) {}
  const graph::Program& program() const override { return inner_->program(); }
  void load(const Batch& batch) override { inner_->load(batch); }
  void run(int step) override {
    inner_->run(step);
    spoil_(*inner_, step, parameters_);
  }
  LossSums sums() const override { return inner_->sums(); }
  void parameters_changed() override { inner_->parameters_changed(); }
  std::vector<float> fetch(int edge) override { return inner_->fetch(edge); }
  void store(int edge, std::span<const float> values) override { inner_->store(edge, values); }

 private:
  std::unique_ptr<Executable> inner_;
  Parameters& parameters_;
  Spoil spoil_;
};

// The reference with a fault.
class WrongBackend : public Backend {
 public:
  explicit WrongBackend(Spoil spoil) : spoil_(std::move(spoil)) {}
  tensor::ParameterLayout layout(const graph::Program& training, LayoutKind kind) override {
    return inner_->layout(training, kind);
  }
  std::unique_ptr<Executable> prepare(const graph::Program& program,
                                      Parameters& parameters) override {
    return std::make_unique<WrongExecutable>(inner_->prepare(program, parameters), parameters,
                                             spoil_);
  }
  void to_canonical(const tensor::Segment& s, std::span<const float> from,
                    std::span<float> to) override {
    inner_->to_canonical(s, from, to);
  }
  void from_canonical(const tensor::Segment& s, std::span<const float> from,
                      std::span<float> to) override {
    inner_->from_canonical(s, from, to);
  }
  std::unique_ptr<Parameters> make_parameters(const tensor::ParameterLayout& layout,
                                              int num_slots) override {
    return inner_->make_parameters(layout, num_slots);
  }
  void update(const optim::UpdateRule& rule, const optim::LearningRate& rate, float parts,
              Parameters& p) override {
    inner_->update(rule, rate, parts, p);
    if (wrong_update) host_span(p.weights())[0] += 0.5F;
  }
  std::string fingerprint() const override { return "wrong"; }

  bool wrong_update = false;

 private:
  std::unique_ptr<Backend> inner_ = make_reference_backend();
  Spoil spoil_;
};

const Spoil kHarmless = [](Executable&, int, Parameters&) {};

graph::Graph model() { return graph::build_model(Model::kCifarResnet8, {1, 3, 8, 8}, 10, 0.1F); }

std::unique_ptr<Backend> checked(Spoil spoil) {
  return make_checked_backend(make_reference_backend(),
                              std::make_unique<WrongBackend>(std::move(spoil)));
}

TEST(CheckedBackend, agrees_when_the_reference_checks_itself) {
  for (const auto precision : {Precision::kFp32, Precision::kBf16}) {
    const auto backend = make_checked_backend(make_reference_backend(), make_reference_backend());
    const auto plain = make_reference_backend();
    ModelRun run(*backend, model(), {.precision = precision});
    ModelRun expected(*plain, model(), {.precision = precision});
    EXPECT_EQ(run.forward().loss, expected.forward().loss);
    run.backward();
    expected.backward();
    EXPECT_EQ(run.gradients("conv0.weight"), expected.gradients("conv0.weight"));
    backend->update({}, {.lr = 0.1F}, 1, *run.parameters);
    plain->update({}, {.lr = 0.1F}, 1, *expected.parameters);
    run.executable->parameters_changed();
    expected.executable->parameters_changed();
    EXPECT_EQ(run.forward().loss, expected.forward().loss);
    EXPECT_EQ(backend->fingerprint(), "checked reference");
  }
}

// Runs a training step with the fault; returns the error's message.
std::string caught(const Spoil& spoil) {
  const auto backend = checked(spoil);
  ModelRun run(*backend, model(), {});
  try {
    run.forward();
    run.backward();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kInternal);
    return error.what();
  }
  return "not caught";
}

int edge_written(Executable& executable, int step) {
  const auto& writes = executable.program().steps[static_cast<std::size_t>(step)].writes;
  return writes.empty() ? -1 : writes.front();
}

Spoil change_edge(const std::string& name, std::size_t element,
                  std::function<float(float)> change) {
  return [=](Executable& executable, int step, Parameters&) {
    const int edge = edge_named(executable.program(), name);
    if (edge_written(executable, step) != edge) return;
    std::vector<float> values = executable.fetch(edge);
    values[element] = change(values[element]);
    executable.store(edge, values);
  };
}

TEST(CheckedBackend, names_step_edge_element_and_both_values) {
  const std::string message =
      caught(change_edge("stage2_unit1_conv1", 7, [](float) { return 123.0F; }));
  EXPECT_THAT(message,
              HasSubstr("forward of stage2_unit1_conv1, edge stage2_unit1_conv1, element 7"));
  EXPECT_THAT(message, HasSubstr("the checked backend 123"));
  EXPECT_THAT(message, HasSubstr("the reference gives "));
}

TEST(CheckedBackend, catches_small_errors_and_not_rounding) {
  const auto scaled_by = [](float factor) {
    return caught([factor](Executable& executable, int step, Parameters&) {
      const int edge = edge_named(executable.program(), "stage3_unit1_conv2");
      if (edge_written(executable, step) != edge) return;
      std::vector<float> values = executable.fetch(edge);
      for (float& value : values) value *= factor;
      executable.store(edge, values);
    });
  };
  EXPECT_EQ(scaled_by(1 + 2e-6F), "not caught");
  EXPECT_THAT(scaled_by(1 + 1e-3F), HasSubstr("stage3_unit1_conv2"));
}

TEST(CheckedBackend, catches_a_wrong_gradient_of_an_edge) {
  const std::string message = caught(change_edge("d(conv0)", 0, [](float v) { return v + 1; }));
  EXPECT_THAT(message, HasSubstr("backward-data of stage1_unit1_bn1, edge d(conv0), element 0"));
}

TEST(CheckedBackend, catches_a_wrong_parameter_gradient) {
  const std::string message = caught([](Executable&, int, Parameters& parameters) {
    const int index = parameters.layout().find("fc1.weight").value();
    const auto& segment = parameters.layout().segments[static_cast<std::size_t>(index)];
    host_span(parameters.gradients(segment))[3] = 77;
  });
  EXPECT_THAT(message, HasSubstr("backward-weights of fc1, gradient of fc1.weight, element 3"));
  EXPECT_THAT(message, HasSubstr("the checked backend 77"));
}

TEST(CheckedBackend, catches_a_nan) {
  const std::string message = caught(change_edge("fc1", 2, [](float) { return std::nanf(""); }));
  EXPECT_THAT(message, HasSubstr("forward of fc1, edge fc1, element 2"));
}

TEST(CheckedBackend, accepts_a_nan_where_the_reference_has_one) {
  const auto backend = checked(kHarmless);
  ModelRun run(*backend, graph::build_model(Model::kMlp, {1, 1, 4, 4}, 10, 0), {});
  run.set_image(0, std::nanf(""));
  EXPECT_TRUE(std::isnan(run.forward().loss));
}

TEST(CheckedBackend, catches_a_wrong_loss) {
  const std::string message =
      caught([](Executable& executable, int step, Parameters&) {
        const graph::Program& program = executable.program();
        if (step != program.first_backward - 1) return;
        const int logits = edge_named(program, "fc1");
        std::vector<float> values = executable.fetch(logits);
        values[0] += 1;
        executable.store(logits, values);
        executable.run(step);
      });
  EXPECT_THAT(message, HasSubstr("forward of loss: the reference gives loss "));
}

TEST(CheckedBackend, catches_a_wrong_update) {
  auto fast = std::make_unique<WrongBackend>(kHarmless);
  fast->wrong_update = true;
  const auto backend = make_checked_backend(make_reference_backend(), std::move(fast));
  ModelRun run(*backend, model(), {});
  run.forward();
  run.backward();
  try {
    backend->update({}, {.lr = 0.1F}, 1, *run.parameters);
    ADD_FAILURE() << "not caught";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("update of bn_data.running_mean, element 0"));
  }
}

}  // namespace
}  // namespace coxswain::backend
