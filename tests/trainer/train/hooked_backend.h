#pragma once

#include <functional>
#include <memory>
#include <string>

#include "trainer/backend/backend.h"

namespace coxswain::train {

// What a test sees and changes of one rank's computing. Passes and updates count from 1 in this
// process; passes are those of training. All but on_to_canonical run on the rank's own thread.
struct Hooks {
  std::function<void(std::int64_t pass, const backend::Batch& batch)> before_pass = nullptr;
  std::function<void(std::int64_t pass, backend::LossSums& sums)> after_forward = nullptr;
  // After a backward step that completed the gradients of segment `completed`.
  std::function<void(std::int64_t pass, backend::Parameters& parameters, int completed)>
      after_gradient = nullptr;
  std::function<void(std::int64_t update, backend::Parameters& parameters)> after_update = nullptr;
  std::function<void()> on_to_canonical = nullptr;  // on the saver's thread as well
  std::function<void(const backend::Batch& batch)> before_evaluation = nullptr;

  std::string fingerprint = "";  // empty: the backend's own
  bool other_layout = false;     // the native layout carries another name inside
};

// Resource. A backend with hooks, which remembers the rank's newest weights and slots.
class HookedBackend : public backend::Backend {
 public:
  HookedBackend(std::unique_ptr<backend::Backend> inner, Hooks hooks);

  backend::AlgorithmChoices algorithm_choices(const graph::Program& training) const override {
    return inner_->algorithm_choices(training);
  }
  std::optional<backend::AlgorithmTimes> time_algorithms(const graph::Program& training,
                                                         const backend::KeepOn& keep_on) override {
    return inner_->time_algorithms(training, keep_on);
  }
  void use(const backend::Algorithms& algorithms) override { inner_->use(algorithms); }
  tensor::ParameterLayout layout(const graph::Program& training, backend::LayoutKind kind) override;
  std::unique_ptr<backend::Parameters> make_parameters(const tensor::ParameterLayout& layout,
                                                       int num_slots) override;
  std::unique_ptr<backend::Executable> prepare(const graph::Program& program,
                                               backend::Parameters& parameters) override;
  void to_canonical(const tensor::Segment& segment, std::span<const float> stored,
                    std::span<float> canonical) override;
  void from_canonical(const tensor::Segment& segment, std::span<const float> canonical,
                      std::span<float> stored) override;
  void update(const optim::UpdateRule& rule, const optim::LearningRate& rate, float statistic_parts,
              backend::Parameters& parameters) override;
  std::string fingerprint() const override;

  // Canonical, one tensor after another in the buffer's order; before the first update what
  // training started with.
  const std::vector<float>& weights() const { return weights_; }
  const std::vector<float>& slots() const { return slots_; }
  std::int64_t updates() const { return updates_; }

 private:
  friend class HookedExecutable;
  void remember(backend::Parameters& parameters);

  std::unique_ptr<backend::Backend> inner_;
  Hooks hooks_;
  std::vector<float> weights_;
  std::vector<float> slots_;
  std::int64_t updates_ = 0;
  std::int64_t passes_ = 0;
};

}  // namespace coxswain::train
