#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <optional>

#include "operator/cluster/local_cluster.h"
#include "operator/convert/hosts.h"
#include "operator/convert_command.h"
#include "operator/estimate_command.h"
#include "operator/inspect_command.h"
#include "operator/job/words.h"
#include "operator/job_file.h"
#include "operator/operator.h"
#include "operator/run.h"
#include "trainer/contract/error.h"
#include "trainer/contract/program/command_line.h"
#include "trainer/contract/program/program.h"
#include "trainer/contract/worker/run_files.h"

namespace {

using namespace coxswain;

constexpr const char* kVersion = "0.1.0";
constexpr int kRefused = static_cast<int>(ExitCode::kBadInput);

struct CommandLine {
  std::string job_file;
  std::vector<std::string> volumes;  // NAME=DIR
  std::vector<std::string> kill;     // ROLE-INDEX@STEP
  std::string log_format = "text";
  std::string run_dir;
  std::string hosts;  // h1:2,h2:2
  std::string hostfile;
  std::string kubeconfig;
  std::string pod_security{word(job::PodSecurity::kRestricted)};
  std::string metrics_address = fmt::format(":{}", contract::kOperatorMetricsPort);
  kube::ConfigRules rules;
  OperatorOptions operator_options;
  ConvertOptions convert_options;
  SightOptions sight_options;
  LogOptions log_options;
  int top_seconds = 2;
  EstimateOptions estimate_options;
};

// A line of a configuration holds it.
std::filesystem::path plain_path(const char* flag, const std::string& text) {
  const std::filesystem::path path = std::filesystem::absolute(text);
  const auto control = [](unsigned char c) { return c < 0x20 || c == 0x7F; };
  if (std::ranges::any_of(path.string(), control))
    throw Error(ExitCode::kUsage,
                fmt::format("{} {}: a path must not hold control characters", flag, path.string()));
  return path;
}

cluster::VolumeDirectories parse_volumes(const std::vector<std::string>& given) {
  cluster::VolumeDirectories volumes;
  for (const std::string& text : given) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
      throw Error(ExitCode::kUsage, fmt::format("--volume {}: write NAME=DIR", text));
    }
    const std::string name = text.substr(0, equals);
    if (!volumes.emplace(name, plain_path("--volume", text.substr(equals + 1))).second)
      throw Error(ExitCode::kUsage, fmt::format("--volume {}: {} is given twice", text, name));
  }
  return volumes;
}

job::PodSecurity pod_security(const CommandLine& line) {
  return value_of<job::PodSecurity>(line.pod_security).value();
}

std::string read_hosts(const std::string& file) {
  constexpr std::size_t kMostBytes = 1 << 20;
  const auto text = contract::read_small_file(file, kMostBytes);
  if (!text)
    throw Error(ExitCode::kUsage, fmt::format("--hostfile {}: it can't be read, or is longer than "
                                              "1 MiB",
                                              file));
  return *text;
}

// Where the ranks run; none: on this machine.
std::vector<cluster::HostSlots> parse_hosts(const CommandLine& line) {
  if (line.hosts.empty() && line.hostfile.empty()) return {};
  const auto hosts = line.hostfile.empty() ? convert::read_host_list(line.hosts)
                                           : convert::read_hostfile(read_hosts(line.hostfile));
  if (!hosts)
    throw Error(ExitCode::kUsage,
                line.hostfile.empty()
                    ? fmt::format("--hosts {}: write h1:2,h2:2, hosts with their slots", line.hosts)
                    : fmt::format("--hostfile {}: write a host a line, `h1 slots=2`, `h1:2` or h1",
                                  line.hostfile));
  std::vector<cluster::HostSlots> all;
  for (const convert::Host& host : *hosts) all.push_back({host.name, host.slots});
  return all;
}

// A job that can start; every problem of another one is told.
std::optional<JobFile> startable_job(const CommandLine& line,
                                     const job::Installation& installation) {
  JobFile file = read_job_file(line.job_file);
  const std::vector<std::string> problems = problems_of(file, installation);
  for (const std::string& problem : problems) std::fputs((problem + "\n").c_str(), stderr);
  if (!problems.empty()) return std::nullopt;
  return file;
}

int run(const CommandLine& line) {
  const auto volumes = parse_volumes(line.volumes);
  const auto kill = cluster::parse_kill_points(line.kill);
  const std::filesystem::path run_dir =
      line.run_dir.empty() ? "" : plain_path("--run-dir", line.run_dir);
  const auto file = startable_job(line, cluster::local_installation());
  if (!file) return kRefused;
  cluster::check_kill_points(kill, file->job.spec);
  return run_job(file->job, {.volumes = volumes,
                             .kill = kill,
                             .as_json = line.log_format == "json",
                             .hosts = parse_hosts(line),
                             .run_dir = run_dir,
                             .program = std::filesystem::read_symlink("/proc/self/exe")});
}

int plan(const CommandLine& line) {
  const auto file = startable_job(line, {.pod_security = pod_security(line)});
  if (!file) return kRefused;
  fmt::print("{}", describe_gang(file->job));
  return 0;
}

int validate(const CommandLine& line) {
  const auto file = startable_job(line, {.pod_security = pod_security(line)});
  if (!file) return kRefused;
  for (const std::string& warning : warnings_of(*file))
    std::fputs((warning + "\n").c_str(), stderr);
  const job::Spec& spec = file->job.spec;
  const std::string servers = spec.server ? fmt::format(", {} servers", spec.server->replicas) : "";
  fmt::print("{}: ok, {} workers{}\n", line.job_file, spec.worker.replicas, servers);
  return 0;
}

int estimate(CommandLine line) {
  EstimateOptions& options = line.estimate_options;
  options.volumes = parse_volumes(line.volumes);
  options.program = std::filesystem::read_symlink("/proc/self/exe");
  const auto file = startable_job(line, cluster::local_installation());
  if (!file) return kRefused;
  return estimate_job(file->job, options);
}

int run_operator(CommandLine line) {
  OperatorOptions& options = line.operator_options;
  options.config = find_api_server(line.kubeconfig, line.rules);
  set_metrics_address(options, line.metrics_address);
  options.installation.pod_security = pod_security(line);
  options.log_json = line.log_format == "json";
  options.identity = make_identity();
  if (options.lease_namespace.empty()) options.lease_namespace = options.config.name_space;
  check_names(options);
  return coxswain::run_operator(options);
}

void add_pod_security(CLI::App& command, CommandLine& line, const char* help) {
  command.add_option("--pod-security", line.pod_security, help)
      ->check(CLI::IsMember({"privileged", "baseline", "restricted"}))
      ->capture_default_str();
}

void add_operator_command(CLI::App& app, CommandLine& line) {
  OperatorOptions& options = line.operator_options;
  CLI::App* command = app.add_subcommand("operator", "watch a cluster's jobs and run them as pods");
  command->add_option("--kubeconfig", line.kubeconfig,
                      "file (default: $KUBECONFIG, then the pod's own account, then "
                      "~/.kube/config)");
  command->add_option("--namespaces", options.namespaces, "a,b: watch these alone (default: all)")
      ->allow_extra_args(false);
  command->add_flag("--leader-elect", options.leader_elect,
                    "act only while holding the Lease coxswain-operator");
  command
      ->add_option("--lease-namespace", options.lease_namespace,
                   "where the Lease is (default: our own)")
      ->needs("--leader-elect");
  command
      ->add_option("--metrics-address", line.metrics_address,
                   "HOST:PORT of /metrics, /healthz and /readyz; empty: none")
      ->capture_default_str();
  command
      ->add_option("--trainer-image", options.installation.trainer_image, "of jobs that name none")
      ->capture_default_str();
  command
      ->add_option("--trainer-cuda-image", options.installation.trainer_cuda_image,
                   "of jobs that name none and ask for NVIDIA's GPUs")
      ->capture_default_str();
  add_pod_security(*command, line,
                   "level of namespaces without a label pod-security.kubernetes.io/enforce; "
                   "templates stay inside it");
  command->add_option("--progress", options.progress, "ask running jobs how far they are")
      ->capture_default_str();
  command->add_option("--workers", options.workers, "jobs worked on at once")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_flag("--allow-insecure", line.rules.allow_insecure,
                    "take a kubeconfig with plain http or without a check of the server");
  command->add_flag("--allow-exec", line.rules.allow_exec,
                    "run the `exec` plug-in that a kubeconfig names");
  command->add_option("--log-format", line.log_format, "text, or json: one object a line")
      ->check(CLI::IsMember({"text", "json"}));
}

// The words after `--` are somebody else's command: none of ours is looked for among them.
int cut_foreign_command(int argc, char** argv, CommandLine& line) {
  if (argc < 2 || std::string_view(argv[1]) != "convert") return argc;
  const auto cut = std::find(argv, argv + argc, std::string_view("--"));
  if (cut != argv + argc) line.convert_options.command.assign(cut + 1, argv + argc);
  return static_cast<int>(cut - argv);
}

void add_convert_command(CLI::App& app, CommandLine& line) {
  ConvertOptions& options = line.convert_options;
  CLI::App* command = app.add_subcommand(
      "convert", "print a TrainingJob for a command or a job of elsewhere: convert -- COMMAND...");
  command
      ->add_option("-f,--file", options.files,
                   "an MPIJob, PyTorchJob, TFJob, MXJob, TrainJob or Volcano Job, and again for "
                   "the runtime of a TrainJob; -: standard input")
      ->allow_extra_args(false);
  command->add_option("--name", options.name, "of the job (default: the program's)");
  command->add_option("--image", options.image, "that has the command's program");
  command->add_flag("--partial", options.partial, "print the job though something has no place");
  command->footer(
      "coxswain convert -- horovodrun -np 8 -H h1:4,h2:4 python train.py > job.yaml\n"
      "What became of each option is told on standard error.");
}

// A command that looks at one job of a cluster, or of this machine.
CLI::App* add_sight_command(CLI::App& app, CommandLine& line, const char* name, const char* help) {
  SightOptions& options = line.sight_options;
  CLI::App* command = app.add_subcommand(name, help);
  command->add_option("JOB", options.job, "the TrainingJob's name")->required();
  command->add_option("-n,--namespace", options.name_space, "of the job (default: the context's)");
  command->add_option("--kubeconfig", options.kubeconfig,
                      "file (default: $KUBECONFIG, then the pod's own account, then "
                      "~/.kube/config)");
  command->add_option("--context", options.rules.context, "of the kubeconfig");
  command->add_flag("--allow-insecure", options.rules.allow_insecure,
                    "take a kubeconfig with plain http or without a check of the server");
  command->add_flag("--allow-exec", options.rules.allow_exec,
                    "run the `exec` plug-in that a kubeconfig names");
  command->add_flag("--local", options.local,
                    "the newest run of that name on this machine (coxswain run)");
  command->add_option("--run-dir", options.run_dir,
                      "a run of this machine by its directory, also after its end");
  return command;
}

void add_sight_commands(CLI::App& app, CommandLine& line) {
  add_sight_command(app, line, "describe",
                    "tell a job's story: where it stands, what happened, why");
  CLI::App* top =
      add_sight_command(app, line, "top", "show what each rank does, and which one is the slowest");
  top->add_option("--every", line.top_seconds,
                  "seconds between two looks, on a terminal; 0: look once")
      ->check(CLI::Range(0, 3600))
      ->capture_default_str();
  CLI::App* logs = add_sight_command(app, line, "logs", "print what a job's ranks print");
  logs->add_option("--rank", line.log_options.rank, "this rank alone")
      ->check(CLI::Range(0, 1 << 20));
  logs->add_flag("-f,--follow", line.log_options.follow,
                 "go on until the job has ended, over restarts");
  logs->add_flag("--previous", line.log_options.previous, "of the attempt before the newest");
}

CLI::App* add_job_command(CLI::App& app, CommandLine& line, const char* name, const char* help) {
  CLI::App* command = app.add_subcommand(name, help);
  command
      ->add_option("-f,--file", line.job_file, "the TrainingJob, YAML or JSON; -: standard input")
      ->required();
  return command;
}

// Comparisons that NaN fails, too.
std::string is_amount(const std::string& text) {
  double amount = 0;
  const bool is_number = CLI::detail::lexical_cast(text, amount);
  return is_number && amount >= 1e-3 && amount <= 1e12 ? "" : "must be a number, 0.001..1e12";
}

void add_estimate_command(CLI::App& app, CommandLine& line) {
  EstimateOptions& options = line.estimate_options;
  CLI::App* command = add_job_command(
      app, line, "estimate", "say how fast a job would be on so many workers, and what that costs");
  command->add_option("--workers", options.workers, "sizes to compare")->capture_default_str();
  command
      ->add_option("--network", options.network, "RATE,LATENCY of a node's link, in one direction")
      ->capture_default_str();
  command->add_flag("--measure", options.measure, "measure a rank's speed here, for 30 s");
  command->add_option("--rate", options.rate, "images/s of a rank alone, as measured elsewhere")
      ->check(is_amount);
  command->add_option("--samples", options.samples, "images of an epoch, for --rate")
      ->check(is_amount);
  command->add_option("--parameters", options.parameters, "of the model, for --rate")
      ->check(is_amount);
  command->add_option("--seen", options.seen,
                      "WORKERS=IMAGES/S: a speed that was seen, which the table is set by");
  command->add_option("--mtbf", options.between_faults,
                      "mean time between two faults of a node, such as 30d: what they cost");
  command->add_option("--restart", options.restart, "from a fault until training goes on")
      ->capture_default_str();
  command->add_option("--volume", line.volumes, "NAME=DIR: a volume of the job, for --measure")
      ->allow_extra_args(false);
}

int dispatch(int argc, char** argv) {
  // Through a link of that name kubectl finds it: `kubectl coxswain logs mnist`.
  const bool from_kubectl =
      argc > 0 && std::filesystem::path(argv[0]).filename() == "kubectl-coxswain";
  CLI::App app("Coxswain runs data-parallel training jobs.",
               from_kubectl ? "kubectl coxswain" : "coxswain");
  CommandLine line;
  CLI::App* run_command = add_job_command(app, line, "run", "run a job as local processes");
  run_command
      ->add_option("--volume", line.volumes, "NAME=DIR: a volume of the job, data or checkpoints")
      ->allow_extra_args(false);
  run_command->add_option("--log-format", line.log_format, "text, or json: one object a line")
      ->check(CLI::IsMember({"text", "json"}));
  run_command->add_option("--run-dir", line.run_dir,
                          "where the processes keep their files; kept (default: temporary)");
  CLI::Option* hosts =
      run_command->add_option("--hosts", line.hosts,
                              "h1:2,h2:2: run the ranks there, over your own ssh, so many a host; "
                              "volumes are directories of theirs");
  run_command
      ->add_option("--hostfile", line.hostfile,
                   "the same from a file, a host a line: `h1 slots=2`, `h1:2` or h1")
      ->excludes(hosts);
  run_command
      ->add_option("--kill", line.kill,
                   "ROLE-INDEX@STEP: a process of the first attempt that dies after so many "
                   "steps, to see recovery; worker-1@137, server-0@40")
      ->allow_extra_args(false);
  run_command->footer("Ctrl-C: save, stop and leave with 75; a second one kills.");
  CLI::App* plan_command = add_job_command(app, line, "plan", "show what would be made for a job");
  CLI::App* validate_command =
      add_job_command(app, line, "validate", "check a job against every rule");
  for (CLI::App* command : {plan_command, validate_command})
    add_pod_security(*command, line, "level of the namespace that the job is for");
  add_sight_commands(app, line);
  add_estimate_command(app, line);
  add_convert_command(app, line);
  add_operator_command(app, line);
  app.add_subcommand("version", "print the version");
  app.require_subcommand(1);
  argc = cut_foreign_command(argc, argv, line);
  if (const auto help = parse_command_line(app, argc, argv, {"--metrics-address"})) {
    fmt::print("{}", *help);
    return 0;
  }
  if (run_command->parsed()) return run(line);
  if (plan_command->parsed()) return plan(line);
  if (validate_command->parsed()) return validate(line);
  if (app.got_subcommand("describe")) return describe_job(line.sight_options);
  if (app.got_subcommand("top")) return show_top(line.sight_options, line.top_seconds);
  if (app.got_subcommand("logs")) return show_logs(line.sight_options, line.log_options);
  if (app.got_subcommand("estimate")) return estimate(line);
  if (app.got_subcommand("convert")) return convert_job(line.convert_options);
  if (app.got_subcommand("operator")) return run_operator(line);
  fmt::print("coxswain {}\n", kVersion);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run_program("coxswain: ", [&] { return dispatch(argc, argv); });
}
