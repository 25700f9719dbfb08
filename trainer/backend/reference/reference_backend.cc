#include "trainer/backend/reference/reference_backend.h"

#include <algorithm>

#include "trainer/backend/reference/reference_executable.h"

namespace coxswain::backend {

namespace {

// Resource, without state: it only makes executables.
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

  std::unique_ptr<Executable> prepare(const graph::Program& program,
                                      tensor::ParameterBuffer& parameters) override {
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

  void update(const optim::UpdateRule& rule, const optim::UpdateStep& step,
              tensor::ParameterBuffer& parameters) override {
    optim::update(rule, step, parameters, 0, static_cast<int>(parameters.layout().segments.size()));
  }

  std::string fingerprint() const override { return "reference"; }
};

}  // namespace

std::unique_ptr<Backend> make_reference_backend() { return std::make_unique<ReferenceBackend>(); }

}  // namespace coxswain::backend
