#include "trainer/augment/augmentation.h"

namespace coxswain::augment {

namespace {

template <class... Steps>
std::string meanings_of(std::type_identity<std::variant<Steps...>>) {
  std::string text;
  (text.append(Steps::kMeaning), ...);
  return text;
}

}  // namespace

tensor::Shape result_of(const Augmentation& step, const tensor::Shape& shape) {
  return std::visit(
      [&](const auto& one) {
        if constexpr (requires { one.result(shape); }) return one.result(shape);
        return shape;
      },
      step);
}

tensor::Shape result_of(const std::vector<Augmentation>& steps, const tensor::Shape& shape) {
  tensor::Shape result = shape;
  for (const Augmentation& step : steps) result = result_of(step, result);
  return result;
}

std::vector<std::string> problems_of(const std::vector<Augmentation>& steps,
                                     const tensor::Shape& first) {
  tensor::Shape shape = first;
  std::vector<std::string> problems;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (std::holds_alternative<Normalise>(steps[i]) && i + 1 != steps.size()) {
      problems.emplace_back("normalise must come last, and once");
    }
    const auto ask = [&](const auto& step) { return step.problem(shape); };
    std::string problem = std::visit(ask, steps[i]);
    if (!problem.empty()) problems.push_back(std::move(problem));
    shape = result_of(steps[i], shape);
  }
  // Of an image whose size is known, another that has none.
  if (first.h > 0 && shape.h == 0) {
    problems.emplace_back("affine with a scale makes sizes at random: let a crop of a size follow");
  }
  return problems;
}

std::string meanings() { return meanings_of(std::type_identity<Augmentation>{}); }

}  // namespace coxswain::augment
