#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <numeric>

#include "trainer/build.h"
#include "trainer/checkpoint/reader.h"
#include "trainer/checkpoint_model.h"
#include "trainer/commands.h"
#include "trainer/contract/printable.h"
#include "trainer/graph/passes.h"
#include "trainer/picture/decode.h"
#include "trainer/picture_files.h"
#include "trainer/train/model_state.h"
#include "trainer/train/predictions.h"
#include "trainer/train/train_options.h"

namespace coxswain {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostAtOnce = 32;
constexpr std::size_t kMostOfName = 200;  // of a class name

tensor::Shape picture_shape_of(const checkpoint::Loaded& loaded) {
  const tensor::Shape shape = shape_of(loaded);
  if (shape.c == 2 || shape.c > 3 || shape.h * shape.w > picture::kMostPixels)
    throw Error(ExitCode::kBadInput,
                fmt::format("[checkpoint] {}: its images are {}x{}x{}, which no picture is",
                            loaded.path.string(), shape.c, shape.h, shape.w));
  return shape;
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
          i < names_.size() ? printable(names_[i], kMostOfName) : fmt::format("class {}", i),
          100 * probabilities[i]);
    fmt::print("{}: {}\n", printable(path, kLongestPath), text);
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
  take_network(loaded, options);
  const std::int64_t classes = classes_of(loaded);
  const std::vector<fs::path> paths(line.images.begin(), line.images.end());
  const auto dataset =
      open_picture_files(paths, test_picture_options(config), picture_shape_of(loaded), classes,
                         train::evaluation_steps(options));
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
