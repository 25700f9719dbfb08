#include "trainer/checkpoint_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>

#include "trainer/contract/config/config_fields.h"
#include "trainer/contract/config/config_value.h"
#include "trainer/contract/printable.h"
#include "trainer/graph/passes.h"

namespace coxswain {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostClasses = 1 << 20;
constexpr std::size_t kMostOfText = 200;

// What a checkpoint's own configuration says of the model and of how images are prepared.
constexpr auto kKeys = std::to_array<std::string_view>(
    {"model", "precision", "convolution", "data.format", "data.augment", "data.evalAugment",
     "data.orientation", "data.decode", "data.channels", "data.shape"});

[[noreturn]] void refuse(const fs::path& checkpoint, const std::string& what) {
  throw Error(ExitCode::kBadInput, fmt::format("[checkpoint] {}: {}", checkpoint.string(), what));
}

std::int64_t number_of(const checkpoint::Loaded& loaded, std::string_view text, std::int64_t most) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 1 || number > most)
    refuse(loaded.path, fmt::format("\"{}\" in its dataset is no number from 1 to {}",
                                    printable(text, kMostOfText), most));
  return number;
}

std::string of_dataset(const checkpoint::Loaded& loaded, const std::string& key) {
  const auto& dataset = loaded.contents.state.dataset;
  const auto found = dataset.find(key);
  if (found == dataset.end())
    refuse(loaded.path, fmt::format("does not say the {} of its dataset: save it again", key));
  return found->second;
}

}  // namespace

contract::TrainerConfig config_of(const checkpoint::Loaded& loaded) {
  const checkpoint::State& state = loaded.contents.state;
  std::vector<contract::ConfigFlag> flags;
  const bool own = !state.network.empty();
  if (own) flags.push_back({"modelFile", "of the checkpoint"});
  for (const contract::Field& field : contract::kFields) {
    if (std::ranges::find(kKeys, field.key) == kKeys.end()) continue;
    if (own && field.key == "model") continue;
    for (const auto* saved : {&state.identity, &state.trajectory}) {
      const auto found = saved->find(std::string(field.key));
      if (found == saved->end() || found->second.empty()) continue;
      const bool is_default = found->second == contract::value_text(field, {});
      if (field.required || !is_default) flags.push_back({found->first, found->second});
    }
  }
  try {
    return contract::read_config("", "", flags).config;
  } catch (const Error& error) {
    refuse(loaded.path, fmt::format("its configuration is not read here: {}", error.what()));
  }
}

tensor::Shape shape_of(const checkpoint::Loaded& loaded) {
  constexpr std::int64_t kMost = 1 << 16;
  const std::string text = of_dataset(loaded, "shape");
  const std::string_view all = text;
  const std::size_t first = std::min(all.find('x'), all.size() - 1);
  const std::size_t second = std::min(all.find('x', first + 1), all.size() - 1);
  return {1, number_of(loaded, all.substr(0, first), kMost),
          number_of(loaded, all.substr(first + 1, second - first - 1), kMost),
          number_of(loaded, all.substr(second + 1), kMost)};
}

std::int64_t classes_of(const checkpoint::Loaded& loaded) {
  return number_of(loaded, of_dataset(loaded, "classes"), kMostClasses);
}

void require_same_size(const checkpoint::Loaded& loaded, const graph::Graph& graph) {
  std::uint64_t wanted = 0;
  for (const graph::Parameter& parameter : graph::parameters(graph::infer_shapes(graph, 1)))
    wanted += std::accumulate(
        parameter.dims.begin(), parameter.dims.end(), std::uint64_t{1},
        [](std::uint64_t all, std::int64_t dim) { return all * static_cast<std::uint64_t>(dim); });
  std::uint64_t there = 0;
  for (const checkpoint::NamedTensor& tensor : loaded.contents.model) there += tensor.values.size();
  if (wanted != there)
    refuse(loaded.path, fmt::format("holds {} values, its model has {}", there, wanted));
}

}  // namespace coxswain
