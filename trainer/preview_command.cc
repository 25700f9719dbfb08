#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "trainer/build.h"
#include "trainer/commands.h"
#include "trainer/contract/printable.h"
#include "trainer/contract/program/output_file.h"
#include "trainer/data/data_loader.h"
#include "trainer/data/file_bytes.h"
#include "trainer/picture/decode.h"
#include "trainer/picture/encode.h"
#include "trainer/picture/sheet.h"
#include "trainer/run_files.h"
#include "trainer/train/batch_source.h"
#include "trainer/train/start_up.h"

namespace coxswain {

namespace {

// "CAT", or "CAT 62%" and "+ DOG 38%".
std::vector<std::string> lines_of(const data::HostBatch& batch, std::size_t row,
                                  const data::Dataset& dataset) {
  const std::string label = dataset.class_name(batch.labels[row]);
  if (batch.shares.empty()) return {label};
  const double share = 100.0 * static_cast<double>(batch.shares[row]);
  return {fmt::format("{:.0f}% {}", share, label),
          fmt::format("{:.0f}% {}", 100 - share, dataset.class_name(batch.partner_labels[row]))};
}

// The batches of one rank that trains alone, from an epoch's begin on; or the test images in order.
data::DataLoader::NextRequest requests(const train::TrainOptions& options,
                                       const PreviewFlags& flags, const data::Dataset& dataset) {
  const std::int64_t epoch = flags.epoch - 1;
  if (!flags.evaluation) {
    const data::SamplerOptions sampler{dataset.size(), options.batch_size, 1,
                                       options.split,  options.last_batch, options.seed};
    const train::Position from{epoch, data::beginning_of(sampler, epoch)};
    return train::BatchSource(sampler, {1, 0, 1}, 0, from, epoch + 1);
  }
  return [&, next = std::int64_t{0}]() mutable -> std::optional<data::BatchRequest> {
    if (next == dataset.size()) return std::nullopt;
    data::BatchRequest request;
    request.sample_ids.resize(
        static_cast<std::size_t>(std::min(options.batch_size, dataset.size() - next)));
    std::iota(request.sample_ids.begin(), request.sample_ids.end(), next);
    next += std::ssize(request.sample_ids);
    return request;
  };
}

std::vector<picture::Labelled> samples_of(data::DataLoader& loader, const data::Dataset& dataset,
                                          const tensor::Shape& shape, std::size_t count) {
  std::vector<picture::Labelled> samples;
  const auto size = static_cast<std::size_t>(shape.per_sample());
  while (samples.size() < count) {
    const data::HostBatch* batch = loader.next();
    if (batch == nullptr) break;
    for (std::size_t row = 0; row < static_cast<std::size_t>(batch->valid); ++row) {
      if (samples.size() == count) break;
      const auto image = std::span(batch->images).subspan(row * size, size);
      samples.push_back({{image.begin(), image.end()}, lines_of(*batch, row, dataset)});
    }
  }
  return samples;
}

void require_drawable(const tensor::Shape& sample, int count) {
  if (sample.c != 1 && sample.c != 3) {
    throw Error(
        ExitCode::kBadInput,
        fmt::format("[preview] images of {} channels can't be drawn: 1 and 3 can", sample.c));
  }
  const tensor::Shape sheet = picture::sheet_shape(static_cast<std::size_t>(count), sample, 2);
  if (sheet.h * sheet.w <= picture::kMostPixels) return;
  throw Error(ExitCode::kBadInput,
              fmt::format("[preview] {} samples of {}x{} are too large a sheet: lower --samples",
                          count, sample.w, sample.h));
}

}  // namespace

int run_preview(const CommandLine& line) {
  require_output_file("--out", line.preview.out);
  require_no_file_of_a_run("--out", line.preview.out);
  const contract::TrainerConfig config = read_configuration(line).config;
  const PreviewFlags& flags = line.preview;
  const auto dataset = flags.evaluation ? open_test_set(config) : open_training_set(config);
  const train::TrainOptions options = make_train_options(config, std::nullopt);
  const data::Preprocessing& steps =
      flags.evaluation ? train::evaluation_steps(options) : options.preprocessing;
  const tensor::Shape shape = augment::result_of(steps, dataset->sample_shape());
  require_drawable(shape, flags.samples);
  data::BadSampleLog skipped;
  data::DataLoader loader(*dataset,
                          {.preprocessing = steps,
                           .training = !flags.evaluation,
                           .seed = options.seed,
                           .depth = 1,
                           .workers = loader_threads(config, 1),
                           .skipped = options.skip_bad_samples ? &skipped : nullptr},
                          requests(options, flags, *dataset));
  const auto samples = samples_of(loader, *dataset, shape, static_cast<std::size_t>(flags.samples));
  for (const std::string& bad : skipped.first()) fmt::print(stderr, "passed over {}\n", bad);
  if (samples.empty())
    throw Error(ExitCode::kBadInput, "[preview] the epoch has no step: nothing to draw");
  const picture::Drawn sheet = picture::draw_sheet(samples, shape);
  data::write_whole(line.preview.out, picture::encode_png({sheet.shape, sheet.pixels}));
  fmt::print(
      "{}: {} samples of {}, {}x{}\n", printable(flags.out, kLongestPath), samples.size(),
      flags.evaluation ? std::string("the test images") : fmt::format("epoch {}", flags.epoch),
      sheet.shape.w, sheet.shape.h);
  return 0;
}

}  // namespace coxswain
