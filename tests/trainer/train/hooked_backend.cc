#include "tests/trainer/train/hooked_backend.h"

#include "trainer/backend/control.h"

namespace coxswain::train {

using backend::Batch;
using backend::LossSums;
using backend::Parameters;
using tensor::Segment;

class HookedExecutable : public backend::Executable {
 public:
  HookedExecutable(std::unique_ptr<Executable> inner, HookedBackend& owner, Parameters& parameters)
      : inner_(std::move(inner)), owner_(owner), parameters_(parameters) {}

  const graph::Program& program() const override { return inner_->program(); }
  void load(const Batch& batch) override {
    const Hooks& hooks = owner_.hooks_;
    if (!program().training) {
      if (hooks.before_evaluation) hooks.before_evaluation(batch);
    } else {
      ++owner_.passes_;
      if (hooks.before_pass) hooks.before_pass(owner_.passes_, batch);
    }
    inner_->load(batch);
  }
  void run(int step_index) override {
    inner_->run(step_index);
    if (!owner_.hooks_.after_gradient) return;
    for (const int completed : program().steps[static_cast<std::size_t>(step_index)].completes) {
      if (step_index >= program().first_backward) {
        owner_.hooks_.after_gradient(owner_.passes_, parameters_, completed);
      }
    }
  }
  void write_sums(const tensor::Slice& control) const override {
    if (!owner_.hooks_.after_forward) return inner_->write_sums(control);
    Executable::write_sums(control);
  }
  LossSums sums() const override {
    LossSums sums = inner_->sums();
    if (program().training && owner_.hooks_.after_forward) {
      owner_.hooks_.after_forward(owner_.passes_, sums);
    }
    return sums;
  }
  void parameters_changed() override { inner_->parameters_changed(); }
  std::vector<float> fetch(int edge) override { return inner_->fetch(edge); }
  void store(int edge, std::span<const float> values) override { inner_->store(edge, values); }

 private:
  std::unique_ptr<Executable> inner_;
  HookedBackend& owner_;
  Parameters& parameters_;
};

HookedBackend::HookedBackend(std::unique_ptr<Backend> inner, Hooks hooks)
    : inner_(std::move(inner)), hooks_(std::move(hooks)) {}

tensor::ParameterLayout HookedBackend::layout(const graph::Program& training,
                                              backend::LayoutKind kind) {
  tensor::ParameterLayout layout = inner_->layout(training, kind);
  if (hooks_.other_layout && kind == backend::LayoutKind::kNative) {
    layout.segments.front().layout = "another";
  }
  return layout;
}

std::unique_ptr<Parameters> HookedBackend::make_parameters(const tensor::ParameterLayout& layout,
                                                           int num_slots) {
  return inner_->make_parameters(layout, num_slots);
}

std::unique_ptr<backend::Executable> HookedBackend::prepare(const graph::Program& program,
                                                            Parameters& parameters) {
  if (weights_.empty()) remember(parameters);
  return std::make_unique<HookedExecutable>(inner_->prepare(program, parameters), *this,
                                            parameters);
}

void HookedBackend::to_canonical(const Segment& segment, std::span<const float> stored,
                                 std::span<float> canonical) {
  if (hooks_.on_to_canonical) hooks_.on_to_canonical();
  inner_->to_canonical(segment, stored, canonical);
}

void HookedBackend::from_canonical(const Segment& segment, std::span<const float> canonical,
                                   std::span<float> stored) {
  inner_->from_canonical(segment, canonical, stored);
}

void HookedBackend::update(const optim::UpdateRule& rule, const optim::LearningRate& rate,
                           float statistic_parts, Parameters& parameters) {
  inner_->update(rule, rate, statistic_parts, parameters);
  const auto control = parameters.gradients(parameters.layout().control());
  if (!backend::read_control(parameters.memory().snapshot(control)()).updated) return;
  ++updates_;
  remember(parameters);
  if (hooks_.after_update) hooks_.after_update(updates_, parameters);
}

std::string HookedBackend::fingerprint() const {
  return hooks_.fingerprint.empty() ? inner_->fingerprint() : hooks_.fingerprint;
}

void HookedBackend::remember(Parameters& parameters) {
  weights_.clear();
  slots_.clear();
  const auto append = [&](std::vector<float>& to, const Segment& segment,
                          const tensor::Slice& stored) {
    std::vector<float> canonical(static_cast<std::size_t>(segment.elements()));
    inner_->to_canonical(segment, parameters.memory().snapshot(stored)(), canonical);
    to.insert(to.end(), canonical.begin(), canonical.end());
  };
  for (const Segment& segment : parameters.layout().segments) {
    if (segment.kind == tensor::SegmentKind::kControl) continue;
    append(weights_, segment, parameters.weights(segment));
    for (int i = 0; i < parameters.num_slots(); ++i) {
      append(slots_, segment, parameters.slot(i, segment));
    }
  }
}

}  // namespace coxswain::train
