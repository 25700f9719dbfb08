#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <string_view>

#include "trainer/commands.h"
#include "trainer/contract/error.h"
#include "trainer/contract/program/command_line.h"
#include "trainer/contract/program/program.h"
#include "trainer/contract/worker/worker_env.h"
#include "trainer/launch/on_host.h"
#include "trainer/launch/rank.h"
#include "trainer/launch/remote.h"
#include "trainer/launch/worker.h"
#include "trainer/report/text_sink.h"

namespace {

using coxswain::CommandLine;
using coxswain::Error;
using coxswain::ExitCode;

int run_worker(const CommandLine& line) {
  coxswain::launch::WorkerOptions options;
  options.launcher =
      line.launcher == "env" ? coxswain::launch::Launcher::kEnv : coxswain::launch::Launcher::kMpi;
  options.command = line.command;
  options.host = line.host;
  options.host_directory = line.host_directory;
  options.wrote_on = line.wrote_on;
  return coxswain::launch::run_worker(
      coxswain::contract::from_env(coxswain::contract::lookup_environment), options);
}

int run_remote(const CommandLine&) { return coxswain::launch::run_remote(); }

int run_hosted(const CommandLine&) { return coxswain::launch::run_hosted(); }

int run_rank(const CommandLine& line) { return coxswain::launch::run_rank({line.command}); }

using Run = std::function<int(const CommandLine&)>;

void add_pack_flags(CLI::App& command, coxswain::PackFlags& flags) {
  command.add_option("--from", flags.from, "a folder with train/ and val/, or mnist, or cifar10");
  command.add_option("--data", flags.data, "where mnist or cifar10 lie; without it as in training");
  command.add_option("--to", flags.to, "FILE.rec, or a folder for train.rec and val.rec");
  command.add_option("--part", flags.part, "which part FILE.rec is of")
      ->check(CLI::IsMember({"train", "val"}));
  command
      .add_option("--encoding", flags.encoding,
                  "keep the files as they are (of a folder, without --resize), or jpeg, png, raw")
      ->check(CLI::IsMember({"keep", "jpeg", "png", "raw"}));
  command.add_option("--resize", flags.resize, "length of the shorter side")
      ->check(CLI::Range(1, 8192));
  command.add_option("--quality", flags.quality, "of jpeg")->check(CLI::Range(1, 100));
  command.add_option("--shards", flags.shards, "files to spread it over")
      ->check(CLI::Range(1, 10000));
  command.add_option("--workers", flags.workers, "threads")->check(CLI::Range(1, 64));
  command.add_option("--check", flags.check, "read every record of this file, and say what is bad");
  command.add_option("--index", flags.index,
                     "write the index of a folder with train/ and val/ beside them, so that no run "
                     "has to list them");
}

void add_preview_flags(CLI::App& command, coxswain::PreviewFlags& flags) {
  command.add_option("--out", flags.out, "FILE.png")
      ->required()
      ->check([](const std::string& file) -> std::string {
        return file.ends_with(".png") ? "" : file + ": a PNG is drawn: name it FILE.png";
      });
  command.add_option("--samples", flags.samples, "how many")->check(CLI::Range(1, 1000));
  command.add_option("--epoch", flags.epoch, "the first samples of this one")
      ->check(CLI::Range(1, 1'000'000));
  command.add_flag("--eval", flags.evaluation, "of the test images, as evaluation sees them");
}

// A subcommand whose flags are the configuration's own, and those named in `with`.
void add_command(CLI::App& app, CommandLine& line, Run& chosen, const std::string& name,
                 const std::string& help, Run run) {
  CLI::App* command = app.add_subcommand(name, help);
  const auto add_config = [&] {
    command->allow_extras();
    command->add_option("--config", line.config, "training configuration (YAML)");
    command->footer(
        "Every key of the configuration is a flag too: --batchSize=128 --optimizer.lr=0.05\n"
        "(docs/training-configuration.md).");
  };
  for (const char* one : {"train", "eval", "bench", "server", "preview"})
    if (name == one) add_config();
  if (name == "train" || name == "eval") {
    command->add_option("--log-format", line.log_format, "text or json")
        ->check(CLI::IsMember({"text", "json"}));
  }
  if (name == "train") {
    command->add_flag("--print-config", line.print_config, "print every value in force and leave");
  }
  if (name == "bench") {
    command->add_flag("--print-plan", line.print_plan,
                      "what each layer may be computed with and how long that takes, and leave");
    command->add_option("--seconds", line.seconds, "of each measurement")
        ->check([](const std::string& text) {
          double seconds = 0;  // a comparison that NaN fails, too
          const bool is_number = CLI::detail::lexical_cast(text, seconds);
          return is_number && seconds > 0 && seconds <= 3600 ? "" : "must be above 0, at most 3600";
        });
  }
  if (name == "eval") {
    command->add_flag("--per-class", line.per_class,
                      "the accuracy of each class, and what it is taken for");
  }
  if (name == "predict") {
    command->add_option("--top", line.top, "how many classes of each image")
        ->check(CLI::Range(1, 1000));
    command->add_option("--format", line.log_format, "text or json")
        ->check(CLI::IsMember({"text", "json"}));
    command->add_option("IMAGES", line.images, "JPEG and PNG files")->required();
  }
  if (name == "eval" || name == "export" || name == "predict") {
    command
        ->add_option("--checkpoint", line.checkpoint,
                     "a checkpoint, or the directory that holds them")
        ->required();
  }
  if (name == "export") {
    command->add_option("--output", line.output, "a new file, or one to be replaced")->required();
    command
        ->add_option("--format", line.format,
                     "safetensors, npz (NumPy's), or onnx, with the model; without it as the "
                     "file's name ends, safetensors where it has no ending")
        ->check(CLI::IsMember({"safetensors", "npz", "onnx"}));
  }
  if (name == "report") {
    command->add_option("DIR", line.directory, "where the checkpoints of a run lie")->required();
    command->add_option("--output", line.output, "a file; without it report.html in DIR");
  }
  if (name == "models")
    command->add_option("--file", line.network,
                        "a network of your own instead: net.yaml, net.onnx");
  if (name == "timeline")
    command->add_option("FILE", line.directory, "what report.timeline wrote")->required();
  if (name == "preview") add_preview_flags(*command, line.preview);
  if (name == "pack") add_pack_flags(*command, line.pack);
  if (name == "worker") {
    command
        ->add_option("--launcher", line.launcher,
                     "who starts the ranks: mpi (mpirun) or env (this worker)")
        ->check(CLI::IsMember({"mpi", "env"}));
    command->add_option("--host", line.host, "where ssh starts the ranks instead of here");
    command->add_option("--host-directory", line.host_directory,
                        "where `coxswain run --hosts` has put this program on that host");
    command->add_option("--wrote-on", line.wrote_on,
                        "the host on which an earlier attempt wrote checkpoints");
  }
  if (name == "rank" || name == "worker") command->footer("-- CMD...: what a rank runs.");
  command->callback([command, &line, &chosen, run = std::move(run)] {
    line.config_flags = command->remaining();
    chosen = run;
  });
}

int parse_and_run(int argc, char** argv) {
  CLI::App app("Trains CNNs and ResNets, data-parallel.", "coxswain-trainer");
  app.require_subcommand(1);
  CommandLine line;
  Run chosen;
  const auto add = [&](const char* name, const char* help, Run run) {
    add_command(app, line, chosen, name, help, std::move(run));
  };
  add("train", "train one rank (of as many as mpirun started; alone: one)", coxswain::run_train);
  add("server", "hold and update the weights of a job that trains with servers",
      coxswain::run_server);
  add("eval", "score a checkpoint on the test set", coxswain::run_eval);
  add("predict", "say what images show, by a checkpoint", coxswain::run_predict);
  add("export", "write a checkpoint's weights as one file: safetensors, npz or onnx",
      coxswain::run_export);
  add("report", "write a page of a run: curves, speed, restarts, configuration",
      coxswain::run_report);
  add("timeline", "say what the steps of a timeline are made of", coxswain::run_timeline);
  add("pack", "make MXNet's .rec files of pictures, and check them", coxswain::run_pack);
  add("preview", "draw samples with their labels, as they are trained on", coxswain::run_preview);
  add("bench", "measure training steps of a configuration", coxswain::run_bench);
  add("models", "list the models", coxswain::run_models);
  add("worker", "first process of a worker: start and supervise its ranks", run_worker);
  add("rank", "supervise one rank: rank -- CMD...", run_rank);
  add("hosted", "what ssh starts on a host of `coxswain run --hosts`: one worker's ranks",
      run_hosted);
  add("remote", "what sshd starts in a pod: mpirun's daemon, for the pod's own gang", run_remote);
  // What a rank runs is its own affair, to the letter.
  char** const end = std::find_if(argv, argv + argc,
                                  [](const char* text) { return std::string_view(text) == "--"; });
  if (end != argv + argc) line.command.assign(end + 1, argv + argc);
  if (const auto help = coxswain::parse_command_line(app, static_cast<int>(end - argv), argv)) {
    fmt::print("{}", *help);
    return 0;
  }
  const bool runs_command = app.got_subcommand("worker") || app.got_subcommand("rank");
  if (end != argv + argc && !runs_command) {
    throw Error(ExitCode::kUsage, "unexpected argument --: only `worker` and `rank` run a command");
  }
  return chosen(line);
}

}  // namespace

int main(int argc, char** argv) {
  coxswain::report::let_writes_fail();
  return coxswain::run_program("coxswain-trainer: ", [&] { return parse_and_run(argc, argv); });
}
