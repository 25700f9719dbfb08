#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "trainer/build.h"
#include "trainer/checkpoint/export.h"
#include "trainer/checkpoint/format.h"
#include "trainer/checkpoint/reader.h"
#include "trainer/checkpoint_model.h"
#include "trainer/commands.h"
#include "trainer/confusion.h"
#include "trainer/contract/config/config_reader.h"
#include "trainer/contract/error.h"
#include "trainer/contract/file_extension.h"
#include "trainer/contract/printable.h"
#include "trainer/contract/program/output_file.h"
#include "trainer/contract/worker/json_fields.h"
#include "trainer/onnx/format.h"
#include "trainer/onnx/network.h"
#include "trainer/run_files.h"
#include "trainer/train/evaluation.h"
#include "trainer/train/model_state.h"
#include "trainer/train/predictions.h"
#include "trainer/train/resume.h"
#include "trainer/train/train_options.h"

namespace coxswain {

namespace {

Confusion confusion_of(train::Executables& executables, const data::Dataset& dataset,
                       const train::EvaluationOptions& options) {
  Confusion confusion(dataset.classes(), dataset.class_names());
  train::predict(executables, dataset, options,
                 [&](std::int64_t, std::int32_t label, std::span<const double> probabilities) {
                   const auto best = std::ranges::max_element(probabilities);
                   confusion.add(label, static_cast<std::size_t>(best - probabilities.begin()));
                 });
  return confusion;
}

// Tensors that are missing would say less.
void require_its_model(const checkpoint::Loaded& loaded, const contract::TrainerConfig& config) {
  if (!config.model_file.empty()) return;
  const checkpoint::State& state = loaded.contents.state;
  const auto model = state.identity.find("model");
  std::string flag;
  if (!state.network.empty())
    flag = "--modelFile=FILE: it holds a network of its own, which is taken";
  else if (model != state.identity.end() && model->second != word(config.model))
    flag = "--model=" + printable(model->second, kLongestPath);
  if (flag.empty()) return;
  throw Error(ExitCode::kBadInput,
              fmt::format("[checkpoint] {}: is not of model {}; give {}",
                          printable(loaded.path.native(), kLongestPath), word(config.model), flag));
}

}  // namespace

int run_eval(const CommandLine& line) {
  const contract::TrainerConfig config = read_configuration(line).config;
  const checkpoint::Loaded loaded = load_checkpoint(line.checkpoint);
  require_its_model(loaded, config);
  const auto dataset = open_test_set(config);
  train::require_same_classes(loaded.contents.state.class_names, dataset->class_names());
  const auto backend = make_backend(config, threads_per_rank(config, 1), gpu_of_rank(config));
  train::TrainOptions options = make_train_options(config, std::nullopt);
  if (!config.model_file.empty()) take_network(loaded, options);
  if (options.network.empty()) take_network(config, options);
  const tensor::Shape input =
      augment::result_of(train::evaluation_steps(options), dataset->sample_shape());
  const graph::Graph graph = train::build_graph(options, input, dataset->classes(), 0);
  const graph::Program program =
      graph::compile(graph, options.batch_size, options.precision, graph::Mode::kTraining);
  const auto parameters =
      backend->make_parameters(backend->layout(program, backend::LayoutKind::kNative), 0);
  train::restore(loaded.contents, *backend, *parameters, {});
  train::Executables executables(graph, options.precision, *backend, *parameters);
  const auto communicator = comm::make_solo_communicator();
  data::BadSampleLog skipped;
  const train::EvaluationOptions how{train::evaluation_batch(options, *dataset),
                                     train::evaluation_steps(options), options.data_workers,
                                     options.skip_bad_samples ? &skipped : nullptr};
  const train::Scores scores =
      train::evaluate(executables, *dataset, how, *communicator, {1, options.virtual_shards, 1});
  for (const std::string& bad : skipped.first()) fmt::print(stderr, "passed over {}\n", bad);
  std::optional<Confusion> confusion;
  data::BadSampleLog again;  // the same ones
  if (line.per_class)
    confusion = confusion_of(
        executables, *dataset,
        {how.batch, how.preprocessing, how.data_workers, how.skipped ? &again : nullptr});
  if (line.log_format == "json") {
    fmt::print(
        "{{\"event\":\"evaluated\",\"checkpoint\":{},\"samples\":{},\"accuracy\":{},\"top5\":{}"
        ","
        "\"loss\":{}{}}}\n",
        contract::dump(loaded.path.filename().string()), scores.samples, scores.accuracy,
        scores.top5, contract::dump(scores.loss), confusion ? "," + confusion->to_json() : "");
  } else {
    fmt::print("{}: accuracy {:.2f} %, top-5 {:.2f} %, loss {:.4f} on {} samples\n",
               printable(loaded.path.native(), kLongestPath), 100 * scores.accuracy,
               100 * scores.top5, scores.loss, scores.samples);
    if (confusion) fmt::print("{}", confusion->to_text());
  }
  return 0;
}

namespace {

// The model of a checkpoint with its weights, for scoring elsewhere.
std::string onnx_of(const checkpoint::Loaded& loaded) {
  const contract::TrainerConfig config = config_of(loaded);
  train::TrainOptions options = make_train_options(config, std::nullopt);
  take_network(loaded, options);
  const graph::Graph graph = train::build_graph(
      options, augment::result_of(train::evaluation_steps(options), shape_of(loaded)),
      classes_of(loaded), 0);
  require_same_size(loaded, graph);
  std::string bytes = onnx::encode(onnx::to_model(graph, loaded.contents.model));
  if (bytes.size() > onnx::kMostModelBytes)
    throw Error(ExitCode::kUsage,
                "--format onnx holds 2 GiB at most, and these weights are more: export them as "
                "safetensors");
  return bytes;
}

std::string format_of(const CommandLine& line) {
  if (!line.format.empty()) return line.format;
  for (const char* format : {"safetensors", "npz", "onnx"})
    if (has_extension(line.output, fmt::format(".{}", format))) return format;
  if (!std::filesystem::path(line.output).has_extension()) return "safetensors";
  throw Error(
      ExitCode::kUsage,
      fmt::format("--output \"{}\" ends neither in .safetensors, .npz nor .onnx: give one of "
                  "these, or say --format",
                  printable(line.output, kLongestPath)));
}

}  // namespace

// The model's tensors, verified, as other programs read them.
int run_export(const CommandLine& line) {
  require_output_file("--output", line.output);
  require_no_file_of_a_run("--output", line.output);
  const std::string format = format_of(line);
  const checkpoint::Loaded loaded = load_checkpoint(line.checkpoint);
  checkpoint::PosixFileSystem files;
  if (format == "npz") {
    checkpoint::export_npz(files, loaded.contents.model, line.output);
  } else if (format == "onnx") {
    const std::string bytes = onnx_of(loaded);
    checkpoint::export_bytes(files, std::as_bytes(std::span(bytes)), line.output);
  } else {
    checkpoint::export_safetensors(files, loaded.contents.model, line.output);
  }
  fmt::print("{}: {} tensors after step {} of {}\n", printable(line.output, kLongestPath),
             loaded.contents.model.size(), loaded.contents.state.step,
             printable(loaded.path.native(), kLongestPath));
  return 0;
}

}  // namespace coxswain
