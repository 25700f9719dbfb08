#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <numeric>

#include "trainer/build.h"
#include "trainer/checkpoint/reader.h"
#include "trainer/commands.h"
#include "trainer/contract/config/config_fields.h"
#include "trainer/contract/config/config_value.h"
#include "trainer/contract/printable.h"
#include "trainer/graph/models/models.h"
#include "trainer/picture/decode.h"
#include "trainer/picture_files.h"
#include "trainer/network_file.h"
#include "trainer/train/model_state.h"
#include "trainer/train/predictions.h"
#include "trainer/train/start_up.h"

namespace coxswain {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostAtOnce = 32;
constexpr std::int64_t kMostClasses = 1 << 20;
constexpr std::size_t kMostCharacters = 200;  // of a class name

// What a checkpoint's own configuration says of the model and of how images are prepared.
constexpr auto kKeys = std::to_array<std::string_view>(
    {"model", "precision", "convolution", "data.format", "data.augment", "data.evalAugment",
     "data.orientation", "data.decode", "data.channels", "data.shape"});

[[noreturn]] void refuse(const fs::path& checkpoint, const std::string& what) {
  throw Error(ExitCode::kBadInput, fmt::format("[checkpoint] {}: {}", checkpoint.string(), what));
}

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

std::int64_t number_of(const checkpoint::Loaded& loaded, std::string_view text, std::int64_t most) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 1 || number > most)
    refuse(loaded.path, fmt::format("\"{}\" in its dataset is no number from 1 to {}",
                                    printable(text, kMostCharacters), most));
  return number;
}

std::string of_dataset(const checkpoint::Loaded& loaded, const std::string& key) {
  const auto& dataset = loaded.contents.state.dataset;
  const auto found = dataset.find(key);
  if (found == dataset.end())
    refuse(loaded.path, fmt::format("does not say the {} of its dataset: save it again", key));
  return found->second;
}

// "3x32x32"
tensor::Shape shape_of(const checkpoint::Loaded& loaded) {
  const std::string text = of_dataset(loaded, "shape");
  const std::string_view all = text;
  const std::size_t first = std::min(all.find('x'), all.size() - 1);
  const std::size_t second = std::min(all.find('x', first + 1), all.size() - 1);
  const tensor::Shape shape{1, number_of(loaded, all.substr(0, first), 3),
                            number_of(loaded, all.substr(first + 1, second - first - 1), 1 << 16),
                            number_of(loaded, all.substr(second + 1), 1 << 16)};
  if (shape.c == 2 || shape.h * shape.w > picture::kMostPixels)
    refuse(loaded.path, fmt::format("its images are {}, which no picture is", text));
  return shape;
}

// Before memory is taken for what a file claims.
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

class Printer {
 public:
  Printer(const CommandLine& line, const std::vector<std::string>& names)
      : line_(line), names_(names) {}

  void print(std::int64_t image, std::span<const double> probabilities) const {
    std::vector<std::size_t> order(probabilities.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto top = std::min(order.size(), static_cast<std::size_t>(line_.top));
    std::ranges::partial_sort(
        order, order.begin() + static_cast<std::ptrdiff_t>(top), [&](std::size_t a, std::size_t b) {
          return std::pair(-probabilities[a], a) < std::pair(-probabilities[b], b);
        });
    order.resize(top);
    const std::string& path = line_.images[static_cast<std::size_t>(image)];
    line_.log_format == "json" ? print_json(path, order, probabilities)
                               : print_text(path, order, probabilities);
  }

 private:
  void print_text(const std::string& path, const std::vector<std::size_t>& order,
                  std::span<const double> probabilities) const {
    std::string text;
    for (const std::size_t i : order)
      text += fmt::format(
          "{}{} {:.2f} %", text.empty() ? "" : ", ",
          i < names_.size() ? printable(names_[i], kMostCharacters) : fmt::format("class {}", i),
          100 * probabilities[i]);
    fmt::print("{}: {}\n", printable(path, 4096), text);
  }

  void print_json(const std::string& path, const std::vector<std::size_t>& order,
                  std::span<const double> probabilities) const {
    nlohmann::ordered_json classes = nlohmann::ordered_json::array();
    for (const std::size_t i : order) {
      nlohmann::ordered_json entry = {{"class", i}};
      if (i < names_.size()) entry["name"] = names_[i];
      entry["probability"] = probabilities[i];
      classes.push_back(std::move(entry));
    }
    const nlohmann::ordered_json event = {
        {"event", "predicted"}, {"image", path}, {"classes", std::move(classes)}};
    fmt::print("{}\n",
               event.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  }

  const CommandLine& line_;
  const std::vector<std::string>& names_;
};

}  // namespace

int run_predict(const CommandLine& line) {
  const checkpoint::Loaded loaded = load_checkpoint(line.checkpoint);
  const contract::TrainerConfig config = config_of(loaded);
  train::TrainOptions options = make_train_options(config, std::nullopt);
  const std::string& network = loaded.contents.state.network;
  if (!network.empty()) options.layers = parse_network(network, loaded.path.string()).layers;
  const std::int64_t classes = number_of(loaded, of_dataset(loaded, "classes"), kMostClasses);
  const std::vector<fs::path> paths(line.images.begin(), line.images.end());
  const auto dataset =
      open_picture_files(paths, test_picture_options(config), shape_of(loaded), classes);
  const graph::Graph graph = train::build_graph(
      options, augment::result_of(train::evaluation_steps(options), dataset->sample_shape()),
      classes, 0);
  require_same_size(loaded, graph);
  const std::int64_t batch = std::min(kMostAtOnce, dataset->size());
  const graph::Program program =
      graph::compile(graph, batch, options.precision, graph::Mode::kTraining);
  const auto backend = make_backend(config, threads_per_rank(config, 1), gpu_of_rank(config));
  const auto parameters =
      backend->make_parameters(backend->layout(program, backend::LayoutKind::kNative), 0);
  train::restore(loaded.contents, *backend, *parameters, {});
  train::Executables executables(graph, options.precision, *backend, *parameters);
  const Printer printer(line, loaded.contents.state.class_names);
  train::predict(executables, *dataset, {batch, train::evaluation_steps(options), 1, nullptr},
                 [&](std::int64_t id, std::int32_t, std::span<const double> probabilities) {
                   printer.print(id, probabilities);
                 });
  return 0;
}

}  // namespace coxswain
