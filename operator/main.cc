#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>

#include "operator/cluster/local_cluster.h"
#include "operator/job_file.h"
#include "operator/operator.h"
#include "operator/run.h"
#include "trainer/contract/config/nearest_key.h"
#include "trainer/contract/error.h"

namespace {

using namespace coxswain;

constexpr const char* kVersion = "0.1.0";

struct CommandLine {
  std::string job_file;
  std::vector<std::string> volumes;  // NAME=DIR
  std::string log_format = "text";
  std::string run_dir;
  std::string kubeconfig;
  std::string metrics_address = fmt::format(":{}", contract::kOperatorMetricsPort);
  kube::ConfigRules rules;
  OperatorOptions operator_options;
};

cluster::VolumeDirectories parse_volumes(const std::vector<std::string>& given) {
  cluster::VolumeDirectories volumes;
  for (const std::string& text : given) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
      throw Error(ExitCode::kUsage, fmt::format("--volume {}: write NAME=DIR", text));
    }
    volumes[text.substr(0, equals)] = std::filesystem::absolute(text.substr(equals + 1));
  }
  return volumes;
}

// A job that can start; every problem of another one is told.
job::TrainingJob startable_job(const CommandLine& line,
                               const job::Installation& installation = {}) {
  job::TrainingJob job = read_job_file(line.job_file);
  const std::string problems = problems_of(job, line.job_file, installation);
  if (!problems.empty()) {
    throw Error(ExitCode::kBadInput, problems.substr(0, problems.size() - 1));
  }
  return job;
}

int run(const CommandLine& line) {
  return run_job(startable_job(line, cluster::local_installation()),
                 {.volumes = parse_volumes(line.volumes),
                  .as_json = line.log_format == "json",
                  .run_dir = line.run_dir,
                  .program = std::filesystem::read_symlink("/proc/self/exe")});
}

int plan(const CommandLine& line) {
  fmt::print("{}", describe_gang(startable_job(line)));
  return 0;
}

int validate(const CommandLine& line) {
  const job::TrainingJob job = startable_job(line);
  fmt::print("{}: ok, {} workers\n", line.job_file, job.spec.worker.replicas);
  return 0;
}

int run_operator(CommandLine line) {
  OperatorOptions& options = line.operator_options;
  options.config = find_api_server(line.kubeconfig, line.rules);
  set_metrics_address(options, line.metrics_address);
  options.log_json = line.log_format == "json";
  options.identity = make_identity();
  if (options.lease_namespace.empty()) options.lease_namespace = options.config.name_space;
  check_namespaces(options);
  return coxswain::run_operator(options);
}

void add_operator_command(CLI::App& app, CommandLine& line) {
  OperatorOptions& options = line.operator_options;
  CLI::App* command = app.add_subcommand("operator", "watch a cluster's jobs and run them as pods");
  command->add_option("--kubeconfig", line.kubeconfig,
                      "file (default: $KUBECONFIG, then the pod's own account, then "
                      "~/.kube/config)");
  command->add_option("--namespaces", options.namespaces, "a,b: watch these alone (default: all)")
      ->delimiter(',');
  command->add_flag("--leader-elect", options.leader_elect,
                    "act only while holding the Lease coxswain-operator");
  command->add_option("--lease-namespace", options.lease_namespace,
                      "where the Lease is (default: our own)");
  command
      ->add_option("--metrics-address", line.metrics_address,
                   "HOST:PORT of /metrics, /healthz and /readyz; empty: none")
      ->capture_default_str();
  command
      ->add_option("--trainer-image", options.installation.trainer_image, "of jobs that name none")
      ->capture_default_str();
  command->add_flag("--unrestricted-templates", options.installation.unrestricted_templates,
                    "take templates outside Pod Security `restricted`");
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

CLI::App* add_job_command(CLI::App& app, CommandLine& line, const char* name, const char* help) {
  CLI::App* command = app.add_subcommand(name, help);
  command
      ->add_option("-f,--file", line.job_file, "the TrainingJob, YAML or JSON; -: standard input")
      ->required();
  return command;
}

// Parses and runs; what parsing finds wrong is thrown as CLI::ParseError.
int dispatch(CLI::App& app, int argc, char** argv) {
  CommandLine line;
  CLI::App* run_command = add_job_command(app, line, "run", "run a job as local processes");
  run_command
      ->add_option("--volume", line.volumes, "NAME=DIR: a volume of the job, data or checkpoints")
      ->allow_extra_args(false);
  run_command->add_option("--log-format", line.log_format, "text, or json: one object a line")
      ->check(CLI::IsMember({"text", "json"}));
  run_command->add_option("--run-dir", line.run_dir,
                          "where the processes keep their files; kept (default: temporary)");
  run_command->footer("Ctrl-C: save, stop and leave with 75; a second one kills.");
  CLI::App* plan_command = add_job_command(app, line, "plan", "show what would be made for a job");
  CLI::App* validate_command =
      add_job_command(app, line, "validate", "check a job against every rule");
  add_operator_command(app, line);
  app.add_subcommand("version", "print the version");
  app.require_subcommand(1);
  app.parse(argc, argv);

  if (run_command->parsed()) return run(line);
  if (plan_command->parsed()) return plan(line);
  if (validate_command->parsed()) return validate(line);
  if (app.got_subcommand("operator")) return run_operator(line);
  fmt::print("coxswain {}\n", kVersion);
  return 0;
}

int fail(ExitCode code, std::string message) {
  constexpr std::size_t kMostBytes = 2000;  // an argument can be of any length
  if (message.size() > kMostBytes) message = message.substr(0, kMostBytes) + "...";
  fmt::print(stderr, "{}\n", message);
  return static_cast<int>(code);
}

// The argument that nobody takes, and the one that was probably meant.
std::string explain_extras(const CLI::App& app) {
  const std::vector<std::string> extras = app.remaining(true);
  const auto flag =
      std::ranges::find_if(extras, [](const std::string& text) { return text.starts_with("-"); });
  const std::string& extra = flag == extras.end() ? extras.front() : *flag;
  std::string command = "coxswain";
  std::vector<std::string> known;
  for (const CLI::App* parsed : app.get_subcommands()) {
    command += " " + parsed->get_name();
    for (const CLI::Option* option : parsed->get_options())
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  if (app.get_subcommands().empty())
    for (const CLI::App* one : app.get_subcommands({})) known.push_back(one->get_name());
  const std::vector<std::string_view> candidates(known.begin(), known.end());
  const auto meant = contract::nearest_key(extra.substr(0, 100), candidates);
  return fmt::format("coxswain: unknown argument {}{} (see {} --help)", extra.substr(0, 100),
                     meant ? fmt::format("; did you mean {}?", *meant) : "", command);
}

// A descriptor that was closed would be given to a connection, which would then get our lines.
void keep_standard_descriptors() {
  for (int descriptor = open("/dev/null", O_RDWR); descriptor >= 0;) {
    if (descriptor > STDERR_FILENO) {
      close(descriptor);
      return;
    }
    descriptor = open("/dev/null", O_RDWR);
  }
}

int run_program(int argc, char** argv) {
  CLI::App app("Coxswain runs data-parallel training jobs.", "coxswain");
  try {
    return dispatch(app, argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    const bool no_command = app.get_subcommands().empty() && app.remaining_size() > 0;
    if (no_command || dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr)
      return fail(ExitCode::kUsage, explain_extras(app));
    return fail(ExitCode::kUsage, fmt::format("coxswain: {} (see coxswain --help)", error.what()));
  } catch (const Error& error) {
    return fail(error.code(), error.what());
  } catch (const std::exception& error) {
    return fail(ExitCode::kInternal, fmt::format("coxswain: {}", error.what()));
  }
}

}  // namespace

int main(int argc, char** argv) {
  keep_standard_descriptors();
  const int code = run_program(argc, argv);
  if (std::fflush(stdout) != 0 || !std::cout.flush())
    return fail(ExitCode::kVolume, "coxswain: standard output can't be written");
  return code;
}
