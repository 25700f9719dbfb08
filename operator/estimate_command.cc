#include "operator/estimate_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <future>
#include <sstream>
#include <thread>

#include "operator/inspect/estimate.h"
#include "operator/inspect/words.h"
#include "operator/job/job_reader.h"
#include "operator/job/quantity.h"
#include "operator/job/worker_spec.h"
#include "trainer/contract/config/trainer_config.h"
#include "trainer/contract/error.h"
#include "trainer/contract/printable.h"
#include "trainer/contract/worker/child_process.h"
#include "trainer/contract/worker/json_fields.h"
#include "trainer/contract/worker/run_files.h"
#include "trainer/contract/worker/temporary_directory.h"

namespace coxswain {

namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr seconds kMeasure{30};
constexpr seconds kMeasureMost{120};
constexpr seconds kTableMost{20};
constexpr std::size_t kMostOutput = 1 << 20;
constexpr double kCopyBytes = 4e9;  // a second: a save holds training up while it copies

[[noreturn]] void misused(const std::string& what) { throw Error(ExitCode::kUsage, what); }
[[noreturn]] void refuse(const std::string& what) { throw Error(ExitCode::kBadInput, what); }

// What is said of one rank: measured, given, or known of the model.
struct Known {
  double rate = 0;
  double parameters = 0;
  double samples = 0;  // of an epoch; 0: not known
  std::string how;
};

std::string output_of(const std::vector<std::string>& command, seconds most) {
  contract::Pipe pipe = contract::make_pipe();
  contract::ChildProcess child(
      {.command = command, .environment = {}, .stdout_fd = pipe.in.get(), .stderr_fd = -1});
  pipe.in.close();
  const auto deadline = steady_clock::now() + most;
  std::string text(4096, '\0'), output;
  for (;;) {
    contract::wait_readable({pipe.out.get()}, std::chrono::milliseconds(500));
    const ssize_t got = read(pipe.out.get(), text.data(), text.size());
    if (got > 0) output.append(text, 0, static_cast<std::size_t>(got));
    if (got == 0 || output.size() > kMostOutput) break;
    if (steady_clock::now() >= deadline)
      throw Error(ExitCode::kInternal, fmt::format("[estimate] {} has not ended after {} s",
                                                   command.at(1), most.count()));
  }
  contract::wait_readable({child.descriptor()}, most);
  const auto end = child.end();
  if (!end || end->code != 0)
    throw Error(end ? static_cast<ExitCode>(end->code) : ExitCode::kInternal,
                fmt::format("[estimate] {} {} failed: see above", command.at(0), command.at(1)));
  return output;
}

// Of one pod with so many ranks.
double cores_of(const job::ReplicaSpec& replicas, int ranks) {
  const job::Json* container = job::trainer_container(replicas);
  if (container != nullptr)
    for (const char* kind : {"requests", "limits"}) {
      const job::Json& amounts = contract::member(contract::member(*container, "resources"), kind);
      if (const job::Json* cpu = contract::find(amounts, "cpu"))
        if (const auto cores = job::quantity_of(*cpu); cores && *cores > 0) return *cores;
    }
  return ranks;  // what a pod asks for, unless told otherwise
}

double cores_of(const job::TrainingJob& job) {
  if (const int gpus = job::gpus_per_worker(job.spec); gpus > 0) return gpus;
  return cores_of(job.spec.worker, job::slots_per_worker(job.spec));
}

// Of a rank.
double threads_of(const job::TrainingJob& job, const contract::TrainerConfig& config) {
  if (config.threads > 0) return static_cast<double>(config.threads);
  return std::max(1.0, cores_of(job) / job::slots_per_worker(job.spec));
}

// Ranks of one machine take from each other what they share, its memory above all: so many are
// measured beside each other as a worker has, and this machine has cores for.
int ranks_at_once(const job::TrainingJob& job, double threads) {
  if (job::gpus_per_worker(job.spec) > 0) return 1;
  const int room = static_cast<int>(std::thread::hardware_concurrency() / threads);
  return std::clamp(room, 1, job::slots_per_worker(job.spec));
}

Known known_of(const std::string& output) {
  const auto begin = output.rfind("{\"event\":\"bench\"");
  const auto json = begin == std::string::npos
                        ? std::nullopt
                        : contract::parse_object(output.substr(begin), kMostOutput);
  Known known;
  if (json) {
    contract::JsonFields fields(*json);
    fields.read("median", known.rate);
    fields.read("parameters", known.parameters);
    fields.read("samples", known.samples);
  }
  if (!(known.rate > 0) || !(known.parameters > 0))
    throw Error(ExitCode::kInternal, "[estimate] the measurement printed no speed");
  return known;
}

Known measured_at_once(const std::vector<std::string>& command, int ranks, int slots) {
  std::vector<std::future<std::string>> outputs;
  for (int i = 0; i < ranks; ++i)
    outputs.push_back(std::async(std::launch::async, output_of, command, kMeasureMost));
  double rate = 0;
  Known known;
  for (auto& output : outputs) {
    known = known_of(output.get());
    rate += known.rate / ranks;
  }
  known.rate = rate;
  known.how = fmt::format("measured here for {} s", kMeasure.count());
  if (ranks < slots)
    known.how += fmt::format(", by {} at once of the {} that a worker has", ranks, slots);
  else if (ranks > 1)
    known.how += fmt::format(" by {} at once", ranks);
  return known;
}

Known measure(const job::TrainingJob& job, const EstimateOptions& options,
              const contract::TrainerConfig& config) {
  job::TrainingJob here = cluster::with_volumes(job, options.volumes);
  const contract::TemporaryDirectory directory("coxswain-estimate");
  const cluster::LocalVolumes volumes = cluster::local_volumes(here, directory.path());
  here = cluster::with_local_paths(here, volumes);
  job::Paths paths;
  paths.config = directory.path() / "training.yaml";
  paths.data = volumes.data;
  paths.checkpoints = volumes.checkpoints;
  paths.bundled_mnist = cluster::bundled_digits(options.program);
  paths.run_dir = directory.path();
  contract::write_whole_file(paths.config, job::training_config(here, paths));
  std::vector<std::string> command{options.program.parent_path() / "coxswain-trainer", "bench",
                                   "--config", paths.config,
                                   fmt::format("--seconds={}", kMeasure.count())};
  const double threads = threads_of(job, config);
  if (config.threads == 0 && job::gpus_per_worker(job.spec) == 0)
    command.push_back(fmt::format("--threads={:.0f}", threads));
  return measured_at_once(command, ranks_at_once(job, threads), job::slots_per_worker(job.spec));
}

// What of the gradients travels.
double sent_share(const contract::CommunicationConfig& communication) {
  const double whole = 1.0 / static_cast<double>(communication.partial);
  switch (communication.compression) {
    case Compression::kNone:
      return whole;
    case Compression::kFp16:
    case Compression::kBf16:
      return whole / 2;
    case Compression::kTwoBit:
      return whole / 16;
    case Compression::kOneBit:
      return whole / 32;
    case Compression::kTopK:
      return whole * std::min(1.0, 2 * communication.compression_ratio);  // with its place
  }
  return whole;
}

// "model input parameters ..." a line.
double parameters_of_model(const contract::TrainerConfig& config, const EstimateOptions& options) {
  if (!config.model_file.empty())
    refuse(
        "[estimate] modelFile: give its --parameters N, which `coxswain-trainer models --file` "
        "prints, or --measure");
  std::istringstream table(
      output_of({options.program.parent_path() / "coxswain-trainer", "models"}, kTableMost));
  for (std::string line; std::getline(table, line);) {
    std::istringstream words(line);
    std::string name, input;
    double parameters = 0;
    if (words >> name >> input >> parameters && name == word(config.model)) return parameters;
  }
  refuse(fmt::format("[estimate] nothing is known of the model {}: give --parameters N",
                     word(config.model)));
}

// 0: not known.
double samples_of(const contract::TrainerConfig& config) {
  const double limit = static_cast<double>(config.data.limit);
  const double all = [&]() -> double {
    switch (config.data.format) {
      case DataFormat::kMnist:
        return 60'000;
      case DataFormat::kCifar10:
        return 50'000;
      case DataFormat::kSynthetic:
        return static_cast<double>(config.data.size);
      case DataFormat::kImageFolder:
      case DataFormat::kRecordIo:
        break;
    }
    return 0;
  }();
  return limit > 0 && (all == 0 || limit < all) ? limit : all;
}

Known given(const contract::TrainerConfig& config, const EstimateOptions& options) {
  return {
      .rate = *options.rate,
      .parameters = options.parameters ? *options.parameters : parameters_of_model(config, options),
      .samples = options.samples.value_or(samples_of(config)),
      .how = "as given"};
}

contract::TrainerConfig config_of(const job::TrainingJob& job) {
  if (!job.spec.training)
    refuse(
        fmt::format("[estimate] {}: has no `training`: of another program's speed nothing can "
                    "be told",
                    job.metadata.name));
  std::vector<job::Problem> problems;
  return job::read_training_parts(job, problems);
}

std::optional<inspect::Seen> parse_seen(const std::string& text) {
  if (text.empty()) return std::nullopt;
  const std::size_t equals = text.find('=');
  const auto sizes = inspect::parse_sizes(text.substr(0, equals));
  double rate = 0;
  if (equals != std::string::npos)
    std::from_chars(text.data() + equals + 1, text.data() + text.size(), rate);
  if (!sizes || sizes->size() != 1 || !(rate > 0))
    misused(fmt::format("--seen {}: write WORKERS=IMAGES/S, such as 2=420", printable(text, 80)));
  if (sizes->front() == 1)
    misused("--seen is of two workers or more: what one reaches alone is --rate");
  return inspect::Seen{sizes->front(), rate};
}

// What is faster than the model allows says that something else is given wrongly.
void require_possible(const inspect::Work& work, const inspect::Network& network,
                      const inspect::Seen& seen) {
  constexpr double kNoise = 1.1;
  const double most = inspect::estimate(work, network, seen.workers).samples_per_second;
  if (seen.samples_per_second <= kNoise * most) return;
  refuse(
      fmt::format("[estimate] --seen {}={:.0f}: {} reach {:.0f} at most with a rank's {:.0f} "
                  "images/s and this --network: one of the three is not what you have",
                  seen.workers, seen.samples_per_second, inspect::counted(seen.workers, "worker"),
                  most, work.samples_per_second));
}

inspect::Work work_of(const job::TrainingJob& job, const contract::TrainerConfig& config,
                      const Known& known) {
  inspect::Work work;
  work.samples_per_second = known.rate;
  work.batch = static_cast<int>(config.batch_size);
  work.batch_is_global = config.batch_semantics == BatchSemantics::kGlobal;
  work.accumulate = static_cast<int>(config.accumulate);
  work.gradient_bytes = known.parameters * 4;
  work.slots = job::slots_per_worker(job.spec);
  work.cores = cores_of(job);
  const bool on_cores = job::gpus_per_worker(job.spec) == 0;
  work.cores_in_turns = on_cores ? work.cores / work.slots : 0;
  if (on_cores) work.ranks_a_core = std::max(1.0, threads_of(job, config) / work.cores_in_turns);
  work.sent_share = sent_share(config.communication);
  constexpr double kEpochs = 10;  // where neither epochs nor steps are given
  if (config.steps) work.steps_in_all = static_cast<double>(*config.steps);
  if (config.epochs || !config.steps)
    work.samples_in_all =
        known.samples * (config.epochs ? static_cast<double>(*config.epochs) : kEpochs);
  if (!job.spec.server) return work;
  work.servers = job.spec.server->replicas;
  work.server_cores = on_cores ? cores_of(*job.spec.server, 1) : 0;
  const bool apart = config.parameter_server.mode != ServerMode::kSync;
  work.exchange = apart ? inspect::Exchange::kAsynchronous : inspect::Exchange::kParameterServer;
  return work;
}

const char* name_of(inspect::Exchange exchange) {
  switch (exchange) {
    case inspect::Exchange::kAllReduce:
      return "all-reduce";
    case inspect::Exchange::kParameterServer:
      return "parameter servers";
    case inspect::Exchange::kAsynchronous:
      break;
  }
  return "parameter servers, asynchronous";
}

std::string time_text(const inspect::Estimate& one) {
  return one.seconds > 0 ? inspect::duration(std::ceil(one.seconds)) : "-";
}

std::string table(const std::vector<inspect::Estimate>& estimates, bool gpus) {
  std::string text =
      fmt::format("{:>7} {:>6} {:>11} {:>11} {:>12} {:>14}\n", "WORKERS", "RANKS", "IMAGES/S",
                  "EFFICIENCY", "TO THE END", gpus ? "GPU-HOURS" : "CORE-HOURS");
  for (const inspect::Estimate& one : estimates)
    text +=
        fmt::format("{:>7} {:>6} {:>11} {:>9.1f} % {:>12} {:>14}\n", one.workers, one.ranks,
                    inspect::grouped(std::llround(one.samples_per_second)), one.efficiency * 100,
                    time_text(one), one.seconds > 0 ? fmt::format("{:.2f}", one.core_hours) : "-");
  const inspect::Estimate& cheap = inspect::cheapest(estimates);
  const inspect::Estimate& fast = inspect::fastest(estimates);
  return text + fmt::format("Cheapest: {}. Fastest: {}.\n",
                            inspect::counted(cheap.workers, "worker"),
                            inspect::counted(fast.workers, "worker"));
}

// What the table does not say, or says on a condition.
std::string left_open(const inspect::Work& work, const contract::TrainerConfig& config) {
  std::string text;
  if (work.ranks_a_core > 1)
    text += fmt::format(
        "The {} of a worker have {:.2g} cores, and compute by turns: so much at most, likely "
        "less.\n",
        inspect::counted(work.slots, "rank"), work.cores);
  if (config.batch_norm != BatchNormScope::kLocal)
    text += "Without the exchanges of batchNorm: sync, two a norm.\n";
  if (!(work.samples_in_all > 0) && !(work.steps_in_all > 0))
    text += "How long it takes is not known: `epochs` and --samples N of an epoch say it.\n";
  return text;
}

std::string faults_text(const std::vector<inspect::Estimate>& estimates,
                        const inspect::Faults& faults, double interval) {
  std::string text = fmt::format(
      "\nWith a fault of each node every {}, {} to be training again, a checkpoint every {}:\n"
      "{:>7} {:>9} {:>12} {:>20} {:>9}\n",
      inspect::duration(faults.between_of_a_node), inspect::duration(faults.restart),
      inspect::duration(interval), "WORKERS", "GETS ON", "TO THE END", "BEST INTERVAL", "GETS ON");
  for (const inspect::Estimate& one : estimates) {
    const double share = inspect::goodput(faults, one.workers, interval);
    const double best = inspect::best_checkpoint_seconds(faults, one.workers);
    const std::string end =
        share < 1e-3 ? "never" : inspect::duration(std::ceil(one.seconds / share));
    text += fmt::format("{:>7} {:>7.1f} % {:>12} {:>20} {:>7.1f} %\n", one.workers, share * 100,
                        one.seconds > 0 ? end : "-", inspect::duration(best),
                        inspect::goodput(faults, one.workers, best) * 100);
  }
  return text;
}

}  // namespace

int estimate_job(const job::TrainingJob& job, const EstimateOptions& options) {
  const auto sizes = inspect::parse_sizes(options.workers);
  if (!sizes)
    misused(fmt::format("--workers {}: write sizes of 1 to 4096, each once, such as 1,2,4",
                        printable(options.workers, 80)));
  const auto network = inspect::parse_network(options.network);
  if (!network)
    misused(fmt::format("--network {}: write RATE,LATENCY, such as 10Gb/s,50us",
                        printable(options.network, 80)));
  const auto between = inspect::parse_seconds(options.between_faults);
  const auto restart = inspect::parse_seconds(options.restart);
  if ((!options.between_faults.empty() && !between) || !restart)
    misused("--mtbf and --restart: write a time, such as 30d, 12h or 30s");
  if (options.measure == options.rate.has_value())
    misused("estimate takes --measure, or --rate IMAGES/S of a rank alone");
  if (!options.measure && !options.volumes.empty()) misused("--volume is for --measure");
  const auto seen = parse_seen(options.seen);
  const contract::TrainerConfig config = config_of(job);
  const Known known = options.measure ? measure(job, options, config) : given(config, options);
  const inspect::Work work = work_of(job, config, known);
  if (seen) require_possible(work, *network, *seen);
  std::vector<inspect::Estimate> estimates;
  for (const int size : *sizes) estimates.push_back(inspect::estimate(work, *network, size, seen));
  fmt::print("{}: {}, {} parameters, batch {}{}, {}; a rank alone: {} images/s, {}\n",
             job.metadata.name, config.model_file.empty() ? word(config.model) : "modelFile",
             inspect::grouped(std::llround(known.parameters)), work.batch,
             work.batch_is_global ? " over all ranks" : " a rank", name_of(work.exchange),
             inspect::grouped(std::llround(known.rate)), known.how);
  fmt::print("{}", table(estimates, job::gpus_per_worker(job.spec) > 0));
  fmt::print("{}", left_open(work, config));
  if (between) {
    const inspect::Faults faults{*between, *restart, work.gradient_bytes * 2 / kCopyBytes};
    fmt::print("{}", faults_text(estimates, faults, job.spec.checkpoint.every_seconds));
  }
  return 0;
}

}  // namespace coxswain
