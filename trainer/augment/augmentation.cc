#include "trainer/augment/augmentation.h"

#include <algorithm>

namespace coxswain::augment {

namespace {

template <class... Steps>
std::string meanings_of(std::type_identity<std::variant<Steps...>>) {
  std::string text;
  (text.append(Steps::kMeaning), ...);
  return text;
}

// One image of two is made when each is all that it becomes.
bool mixes_too_early(const std::vector<Augmentation>& steps) {
  const auto first = std::ranges::find_if(steps, [](const auto& step) { return mixes(step); });
  return std::any_of(first, steps.end(), [](const Augmentation& step) {
    return !mixes(step) && !std::holds_alternative<Normalise>(step);
  });
}

bool mixes_twice_alike(const std::vector<Augmentation>& steps) {
  const auto count = [&](auto is_one) { return std::ranges::count_if(steps, is_one); };
  return count([](const auto& step) { return std::holds_alternative<Mixup>(step); }) > 1 ||
         count([](const auto& step) { return std::holds_alternative<Cutmix>(step); }) > 1;
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
  if (mixes_too_early(steps)) {
    problems.emplace_back("mixup and cutmix must come last, before normalise");
  }
  if (mixes_twice_alike(steps)) problems.emplace_back("mixup, and cutmix, at most once each");
  // Of an image whose size is known, another that has none.
  if (first.h > 0 && shape.h == 0) {
    problems.emplace_back("affine with a scale makes sizes at random: let a crop of a size follow");
  }
  return problems;
}

std::string meanings() { return meanings_of(std::type_identity<Augmentation>{}); }

}  // namespace coxswain::augment
