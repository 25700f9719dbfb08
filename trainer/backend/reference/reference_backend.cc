#include "trainer/backend/reference/reference_backend.h"

#include <algorithm>

#include "trainer/backend/host_update.h"
#include "trainer/backend/reference/reference_executable.h"

namespace coxswain::backend {

namespace {

// Resource.
class ReferenceBackend : public Backend {
 public:
  tensor::ParameterLayout layout(const graph::Program& training, LayoutKind) override {
    std::vector<tensor::Segment> segments;
    for (const graph::Parameter& p : training.parameters) {
      tensor::Segment segment{p.name, p.kind, p.dims};
      segment.stored = segment.elements();
      segments.push_back(std::move(segment));
    }
    return tensor::pack(std::move(segments));
  }

  std::unique_ptr<Parameters> make_parameters(const tensor::ParameterLayout& layout,
                                              int num_slots) override {
    return std::make_unique<Parameters>(memory_, layout, num_slots);
  }

  std::unique_ptr<Executable> prepare(const graph::Program& program,
                                      Parameters& parameters) override {
    return std::make_unique<reference::ReferenceExecutable>(program, parameters);
  }

  void to_canonical(const tensor::Segment&, std::span<const float> stored,
                    std::span<float> canonical) override {
    std::ranges::copy(stored, canonical.begin());
  }

  void from_canonical(const tensor::Segment&, std::span<const float> canonical,
                      std::span<float> stored) override {
    std::ranges::copy(canonical, stored.begin());
  }

  void update(const optim::UpdateRule& rule, const optim::LearningRate& rate, float statistic_parts,
              Parameters& parameters) override {
    const auto count = count_update(parameters);
    if (!count) return;
    const optim::UpdateStep step{rate.lr, rate.momentum, *count, statistic_parts,
                                 gradient_factor(rule, parameters)};
    update_segments(rule, step, parameters, 0,
                    static_cast<int>(parameters.layout().segments.size()));
  }

  std::string fingerprint() const override { return "reference"; }

 private:
  tensor::HostMemory memory_;
};

}  // namespace

std::unique_ptr<Backend> make_reference_backend() { return std::make_unique<ReferenceBackend>(); }

}  // namespace coxswain::backend
