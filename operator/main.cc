#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "operator/cluster/local_cluster.h"
#include "operator/job_file.h"
#include "operator/run.h"
#include "trainer/contract/error.h"

namespace {

using namespace coxswain;

constexpr const char* kVersion = "0.1.0";

struct CommandLine {
  std::string job_file;
  std::vector<std::string> volumes;  // NAME=DIR
  std::string log_format = "text";
  std::string run_dir;
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

int not_yet(const CommandLine&) {
  throw Error(ExitCode::kUsage, "operator: not in this version; `coxswain run` runs a job here");
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
  CLI::App* operator_command =
      app.add_subcommand("operator", "watch a cluster's jobs (not in this version)");
  operator_command->allow_extras();
  app.add_subcommand("version", "print the version");
  app.require_subcommand(1);
  app.parse(argc, argv);

  if (run_command->parsed()) return run(line);
  if (plan_command->parsed()) return plan(line);
  if (validate_command->parsed()) return validate(line);
  if (operator_command->parsed()) return not_yet(line);
  fmt::print("coxswain {}\n", kVersion);
  return 0;
}

int fail(int code, const std::string& message) {
  fmt::print(stderr, "{}\n", message);
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Coxswain runs data-parallel training jobs.", "coxswain");
  try {
    return dispatch(app, argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    return fail(static_cast<int>(ExitCode::kUsage),
                fmt::format("coxswain: {} (see coxswain --help)", error.what()));
  } catch (const Error& error) {
    return fail(static_cast<int>(error.code()), error.what());
  } catch (const std::exception& error) {
    return fail(static_cast<int>(ExitCode::kInternal), fmt::format("coxswain: {}", error.what()));
  }
}
