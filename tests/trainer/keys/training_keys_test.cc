#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>

#include "tests/support/training_changes.h"
#include "tests/trainer/data/data_files.h"
#include "tests/trainer/picture/ppm.h"
#include "tests/trainer/train/checkpoint_helper.h"
#include "tests/trainer/train/training_fixture.h"
#include "trainer/data/record.h"
#include "trainer/build.h"
#include "trainer/checkpoint/export.h"
#include "trainer/graph/models/models.h"
#include "trainer/graph/operations.h"
#include "trainer/graph/passes.h"
#include "trainer/communicators.h"
#include "trainer/report/timeline_words.h"
#include "trainer/reports.h"

// Every key of the training configuration alters a batch, a number, a deadline, a file or a line of
// progress.
namespace coxswain {

namespace {

namespace fs = std::filesystem;
using contract::TrainerConfig;
using test::TrainingChange;

// FNV-1a, 64 bits.
class Digest {
 public:
  template <typename T>
  void add(std::span<const T> values) {
    for (const std::byte byte : std::as_bytes(values))
      hash_ = (hash_ ^ static_cast<std::uint64_t>(byte)) * 1099511628211U;
  }
  std::string text() const { return fmt::format("{:016x}", hash_); }

 private:
  std::uint64_t hash_ = 14695981039346656037U;
};

std::string digest(const std::vector<float>& values) {
  Digest digest;
  digest.add(std::span(values));
  return digest.text();
}

std::string to_text(const backend::Batch& batch) {
  Digest content;
  content.add(batch.images.bytes);
  content.add(batch.images.table);
  content.add(batch.labels);
  content.add(batch.sample_ids);
  return fmt::format("{} rows, {} valid, of {}: {}\n", batch.labels.size(), batch.valid,
                     batch.global_count, content.text());
}

// What one rank computed and sent, in order.
struct RankLog {
  std::string batches;
  std::string sums;
};

class LoggedCommunicator : public comm::Communicator {
 public:
  LoggedCommunicator(std::unique_ptr<Communicator> inner, std::string& log)
      : inner_(std::move(inner)), log_(log) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  bool reaches(tensor::Place place) const override { return inner_->reaches(place); }
  bool fixed_order() const override { return inner_->fixed_order(); }
  comm::Ticket all_reduce_sum(const comm::ReductionPlan& plan, comm::Reduction reduction) override {
    log_ += fmt::format("{} parts of {}\n", reduction.parts.size(), reduction.parts[0].size());
    return inner_->all_reduce_sum(plan, std::move(reduction));
  }
  void wait(comm::Ticket ticket) override { inner_->wait(ticket); }
  void broadcast(std::span<std::byte> bytes, int root) override { inner_->broadcast(bytes, root); }
  void barrier() override { inner_->barrier(); }
  void finish() override { inner_->finish(); }

 private:
  std::unique_ptr<Communicator> inner_;
  std::string& log_;
};

// What was told, without the measured times and what merely repeats the configuration.
std::string to_text(const train::Told& told) {
  std::string text;
  for (const auto& info : told.started) {
    text += fmt::format("{}\n", fmt::join(info.notes, "\n"));
    text += fmt::format(
        "{}: {} parameters, {} MACs, {} ranks x {} threads, {} + {} images, {} steps, "
        "{} an epoch, batch {}, from step {}, epoch {}\n",
        info.fingerprint, info.parameters, info.multiply_accumulates, info.world_size, info.threads,
        info.training_samples, info.test_samples, info.total_steps, info.steps_per_epoch,
        info.global_batch, info.first_step, info.epoch);
    if (info.one_rank_rate) text += fmt::format("one rank: {} images/s\n", *info.one_rank_rate);
  }
  for (const auto& step : told.steps)
    text += fmt::format("step {} of epoch {}: loss {}, lr {}\n", step.step, step.epoch, step.loss,
                        step.lr);
  for (const auto& epoch : told.epochs)
    text += fmt::format("epoch {}: {} {} {} {} {} {}\n", epoch.epoch, epoch.training_loss,
                        epoch.evaluated, epoch.loss, epoch.accuracy, epoch.top5,
                        epoch.training_top5.value_or(-1));
  text += fmt::format("weights told after steps: {}\n", fmt::join(told.weights, " "));
  for (const std::string& warning : told.warnings) text += warning + "\n";
  // How soon a save ends decides which ones follow: the first is always the same.
  if (!told.saves.empty()) text += fmt::format("first saved: step {}\n", told.saves[0].step);
  for (const auto& summary : told.finished)
    text += fmt::format("{}: {} {} epochs {} steps\n", summary.result, summary.loss.value_or(-1),
                        summary.epochs, summary.steps);
  return text;
}

// The places that are named in the table.
class Places {
 public:
  Places() {
    for (const auto& [name, first] : {std::pair("one", 0), std::pair("two", 5)}) {
      const fs::path directory = root_.path() / name;
      fs::create_directory(directory);
      const auto shifted = [first = first](test::Bytes bytes, std::size_t header) {
        for (std::size_t i = header; i < bytes.size(); ++i)
          bytes[i] = static_cast<std::uint8_t>(bytes[i] + first);
        return bytes;
      };
      for (const char* part : {"train", "t10k"}) {
        test::write_file(directory / fmt::format("{}-images-idx3-ubyte", part),
                         shifted(test::idx_images(16, 28, 28), 16));
        test::write_file(directory / fmt::format("{}-labels-idx1-ubyte", part),
                         test::idx_labels(16));
      }
      put_pictures(directory, first);
      put_weights(directory / "weights.safetensors", first);
      std::ofstream(directory / "net.yaml") << fmt::format(
          "layers: [{{dense: {{outputs: {}}}}}, relu, {{dense: {{outputs: classes}}}}]", 5 + first);
      for (const char* batch : {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4",
                                "data_batch_5", "test_batch"})
        test::write_file(directory / fmt::format("{}.bin", batch), test::cifar_records(4));
    }
  }
  // Of the network of kSmallTraining.
  static void put_weights(const fs::path& file, int first) {
    const graph::Graph graph =
        graph::infer_shapes(graph::build_model(Model::kMlp, {1, 1, 6, 6}, 4, 0), 1);
    std::vector<checkpoint::NamedTensor> tensors;
    for (const graph::Parameter& parameter : graph::parameters(graph)) {
      std::vector<float> values(1);
      for (const std::int64_t dim : parameter.dims)
        values.resize(values.size() * static_cast<std::size_t>(dim));
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>((i + static_cast<std::size_t>(first)) % 7) / 50;
      tensors.push_back({parameter.name, parameter.dims, std::move(values)});
    }
    checkpoint::PosixFileSystem files;
    checkpoint::export_safetensors(files, tensors, file);
  }
  // As a folder and as records; all are turned by their Exif. Of "two" one is no picture.
  static void put_pictures(const fs::path& directory, int first) {
    for (const char* part : {"train", "val"}) {
      test::Bytes records;
      for (const char* name : {"cat/1.jpg", "cat/2.jpg", "dog/1.jpg", "dog/2.jpg"}) {
        fs::create_directories((directory / part / name).parent_path());
        const bool is_broken = first > 0 && std::string_view(name) == "dog/1.jpg";
        const auto bytes =
            is_broken ? test::Bytes{1, 2, 3} : test::file_bytes(test::picture_file("turned.jpg"));
        test::write_file(directory / part / name, bytes);
        data::append_record(records, name[0] == 'c' ? 0 : 1, 0, bytes);
      }
      test::write_file(directory / fmt::format("{}.rec", part), records);
    }
  }
  std::string path() const { return root_.path().string(); }
  // What a process of a job is told, as far as its connections need it.
  contract::WorkerEnv env() const {
    contract::WorkerEnv env;
    env.key = root_.path() / "key";
    std::ofstream(env.key) << std::string(64, 'a');
    return env;
  }
  std::vector<std::string> saved() const {
    std::vector<std::string> names;
    for (const char* place : {"saved", "elsewhere"})
      for (const std::string& name : saved_in(root_.path() / place))
        names.push_back(fmt::format("{}/{}", place, name));
    return names;
  }

 private:
  static std::set<std::string> saved_in(const fs::path& directory) {
    return fs::is_directory(directory) ? train::saved_in(directory) : std::set<std::string>();
  }

  train::CheckpointDirectory root_;
};

// The hooks of one rank: they log its batches, and take the volume away where that is asked for.
train::Hooks hooks_of(const TrainingChange& change, const TrainerConfig& config, RankLog& log) {
  train::Hooks hooks;
  hooks.before_pass = [&log](std::int64_t, const backend::Batch& batch) {
    log.batches += to_text(batch);
  };
  hooks.before_evaluation = [&log](const backend::Batch& batch) {
    log.batches += "evaluated: " + to_text(batch);
  };
  if (change.volume_goes)
    hooks.after_update = [directory = config.checkpoint.path](std::int64_t update,
                                                              backend::Parameters&) {
      if (update != 1) return;
      fs::remove_all(directory);
      std::ofstream(directory) << "in the way";
    };
  return hooks;
}

// One run, as the trainer's own wiring makes it of the configuration.
std::string run(const TrainingChange& change, const TrainerConfig& config,
                std::optional<std::int64_t> steps) {
  train::TrainOptions options = make_train_options(config, std::nullopt);
  take_network(config, options);
  options.threads = threads_per_rank(config, change.ranks);
  if (steps) options.steps = steps;
  const auto training = open_training_set(config);
  const auto test = open_test_set(config);
  std::vector<RankLog> logs(static_cast<std::size_t>(change.ranks));
  std::vector<std::chrono::steady_clock::time_point> clocks(logs.size());
  train::World world{.size = change.ranks, .training = training.get(), .test = test.get()};
  world.on_rank_0_alone = true;
  world.backend = [&](int) { return make_backend(config, options.threads, gpu_of_rank(config)); };
  world.hooks = [&](int rank, std::atomic<bool>&, test::ThreadNetwork&) {
    return hooks_of(change, config, logs[static_cast<std::size_t>(rank)]);
  };
  world.wrap_communicator = [&](int rank, std::unique_ptr<comm::Communicator> given) {
    if (change.ranks == 1) given = make_communicator(config, std::nullopt, nullptr);
    auto& log = logs[static_cast<std::size_t>(rank)].sums;
    return std::make_unique<LoggedCommunicator>(std::move(given), log);
  };
  world.now = [&](int rank) {
    auto& clock = clocks[static_cast<std::size_t>(rank)];
    return clock += std::chrono::seconds(change.seconds_a_look);
  };
  std::string seen = fmt::format("deadline of a step: {} s, {} threads prepare images\n",
                                 mpi_options(config).step_deadline_seconds, options.data_workers);
  for (const train::Outcome& outcome : run_ranks(options, world))
    seen += fmt::format("{}\nweights {} slots {}\n{}", outcome.error, digest(outcome.weights),
                        digest(outcome.slots), to_text(outcome.told));
  for (const RankLog& log : logs) seen += log.batches + log.sums;
  return seen;
}

// How many bytes gradients take, and what they leave out.
std::string sent_by(const compress::Codec& codec) {
  std::vector<float> gradients(10000), left(gradients.size());
  for (std::size_t i = 0; i < gradients.size(); ++i)
    gradients[i] = static_cast<float>(i % 997) / 997 - 0.5F;
  std::vector<std::byte> bytes(
      static_cast<std::size_t>(compress::encoded_bytes(codec, std::ssize(gradients))));
  compress::encode(codec, gradients, std::vector<float>(gradients.size()), bytes, left);
  return fmt::format("{} bytes, without {}", bytes.size(), digest(left));
}

// Each timeline with what it says without times.
std::string timelines_in(const fs::path& directory) {
  std::map<std::string, std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (entry.path().extension() != ".json" || entry.path().filename() == "state.json" ||
        entry.path().filename() == "MANIFEST.json")
      continue;
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    std::set<std::int64_t> steps;
    const auto spans = report::parse_timeline(text);
    for (const auto& span : spans.value())
      if (span.part == "step") steps.insert(span.step);
    found[entry.path().filename()] = fmt::format("steps {}", fmt::join(steps, " "));
  }
  std::string all;
  for (const auto& [name, steps] : found) all += name + ": " + steps + "\n";
  return all;
}

// The names of what rank 0 writes beside the checkpoints, without their times.
std::string written_by(const TrainerConfig& config) {
  const train::CheckpointDirectory place;
  {
    Reports reports("json", std::nullopt, config, place.path());
    reports.write_page();
  }
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(place.path())) {
    const std::string name = fs::relative(entry.path(), place.path()).string();
    names.insert(name.substr(0, name.find(".tfevents.")));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

// Everything that can be seen of a value of a key.
std::string effects(const TrainingChange& change, std::string_view value) {
  const Places places;
  TrainerConfig config;
  try {
    config = contract::read_config("", "", test::flags_of(change, value, places.path())).config;
  } catch (const Error& error) {
    return fmt::format("refused: {}", error.what());
  }
  TrainerConfig before = config;
  before.checkpoint.from_epoch.reset();
  before.checkpoint.from_step.reset();
  before.checkpoint.from_path.clear();
  for (int earlier = 0; earlier < change.earlier_runs; ++earlier) run(change, before, earlier + 1);
  std::string seen =
      fmt::format("ahead of the slowest: {}; encrypted: {}\n", staleness_bound(config).value_or(-1),
                  network_options(config, places.env(), 0).encrypt);
  const compress::Codec codec = make_train_options(config, std::nullopt).codec;
  seen += fmt::format("sent: {}\n", sent_by(codec));
  seen += fmt::format("written: {}\n", written_by(config));
  try {
    seen += run(change, config, std::nullopt);
  } catch (const Error& error) {
    seen += error.what();
  }
  seen += fmt::format("{}\n{}", fmt::join(places.saved(), "\n"), timelines_in(places.path()));
  for (std::size_t at = 0; (at = seen.find(places.path())) != std::string::npos;)
    seen.replace(at, places.path().size(), "$DIR");
  return seen;
}

void expect_effects(const TrainingChange& change) {
  // oneDNN has it for AVX-512 alone.
  if (change.key == "convolution" && !__builtin_cpu_supports("avx512f")) return;
  const auto values = test::values_of(change);
  ASSERT_GE(values.size(), 2U) << change.key << ": one value alone changes nothing";
  std::map<std::string, std::string_view> seen;
  for (const std::string_view value : values) {
    const std::string effect = effects(change, value);
    EXPECT_FALSE(effect.starts_with("refused: ")) << change.key << "=" << value << ": " << effect;
    const auto [same, is_new] = seen.emplace(effect, value);
    EXPECT_TRUE(is_new) << change.key << "=" << value << " does what " << same->second << " does:\n"
                        << effect;
  }
  // Else any difference would be taken for an effect.
  EXPECT_TRUE(seen.contains(effects(change, values.front())))
      << change.key << "=" << values.front() << " does not do the same again";
}

}  // namespace

TEST(TrainingKeys, have_a_change_each) {
  std::set<std::string_view> keys;
  for (const contract::Field& field : contract::kFields) {
    keys.insert(field.key);
    EXPECT_TRUE(test::change_of(field.key))
        << field.key << ": add a change that alters something to tests/support/training_changes.h";
  }
  for (const TrainingChange& change : test::training_changes())
    EXPECT_TRUE(keys.contains(change.key)) << change.key << " is no key";
}

TEST(TrainingKeys, alter_what_a_run_does) {
  for (const TrainingChange& change : test::training_changes()) {
    SCOPED_TRACE(change.key);
    expect_effects(change);
  }
}

}  // namespace coxswain
