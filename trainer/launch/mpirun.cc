#include "trainer/launch/mpirun.h"

#include <fmt/format.h>
#include <unistd.h>

#include <sstream>

namespace coxswain::launch {

namespace {

// mpirun's session files go into the run directory, where their removal is certain. Unix socket
// paths are made below it, and may have 107 characters.
constexpr std::size_t kMaxSessionDirectoryLength = 60;

void add_session_directory(std::map<std::string, std::string>& environment,
                           const std::filesystem::path& run_dir) {
  if (run_dir.empty() || run_dir.string().size() > kMaxSessionDirectoryLength) return;
  environment["OMPI_MCA_orte_tmpdir_base"] = run_dir;
  environment["PRTE_MCA_prte_tmpdir_base"] = run_dir;
}

void allow_root(std::map<std::string, std::string>& environment) {
  for (const char* prefix : {"OMPI", "PRTE"}) {
    environment[fmt::format("{}_ALLOW_RUN_AS_ROOT", prefix)] = "1";
    environment[fmt::format("{}_ALLOW_RUN_AS_ROOT_CONFIRM", prefix)] = "1";
  }
}

using Environment = std::map<std::string, std::string>;

Environment common_environment() {
  return {
      // Ranks may share cores: a waiting one gives its core away.
      {"OMPI_MCA_mpi_yield_when_idle", "1"},
      // Naming the transports skips the search for fabrics: MPI_Init takes 40 ms instead of 250.
      {"OMPI_MCA_pml", "ob1"},
      {"OMPI_MCA_mca_base_component_show_load_errors", "0"},
  };
}

// When a rank fails, mpirun waits so long before SIGTERM and again before KILL.
void set_patience(const char* seconds, Environment& environment) {
  environment["OMPI_MCA_odls_base_sigkill_timeout"] = seconds;
  environment["PRTE_MCA_odls_base_sigkill_timeout"] = seconds;
}

Environment local_environment() {
  Environment environment = common_environment();
  set_patience("10", environment);  // worker 0 sees a failure first, and knows who is to save
  environment["OMPI_MCA_btl"] = "self,vader";
  // mpirun's own connections stay on this machine.
  environment["OMPI_MCA_oob_tcp_if_include"] = "lo";
  environment["PRTE_MCA_prte_if_include"] = "lo";
  return environment;
}

Environment pod_environment(const std::filesystem::path& ssh_config) {
  Environment environment = common_environment();
  set_patience("1", environment);  // nobody can save any more
  environment["OMPI_MCA_btl"] = "self,vader,tcp";
  // Ranks of one pod must not read each other's memory: seccomp's default profile forbids that.
  environment["OMPI_MCA_btl_vader_single_copy_mechanism"] = "none";
  const std::string agent = fmt::format("ssh -F {}", ssh_config.string());
  environment["OMPI_MCA_plm_rsh_agent"] = agent;
  environment["PRTE_MCA_plm_ssh_agent"] = agent;
  // Every daemon is started from here: what keeps one from starting is told here.
  environment["OMPI_MCA_plm_rsh_no_tree_spawn"] = "1";
  environment["PRTE_MCA_plm_ssh_no_tree_spawn"] = "1";
  return environment;
}

// The call of `options`, with what the user has set of these variables left as it is.
template <typename Options>
MpirunCall call_of(const Options& options, std::vector<std::string> command,
                   Environment environment, const contract::EnvironmentLookup& lookup) {
  command.insert(command.end(), {"-np", std::to_string(options.env.world_size), "--bind-to", "none",
                                 options.trainer, "rank", "--"});
  command.insert(command.end(), options.command.begin(), options.command.end());
  std::erase_if(environment, [&](const auto& entry) { return lookup(entry.first); });
  environment.merge(contract::to_env(options.env));
  return {std::move(command), std::move(environment)};
}

}  // namespace

MpirunCall local_mpirun(const LocalMpi& options, const contract::EnvironmentLookup& lookup) {
  Environment environment = local_environment();
  add_session_directory(environment, options.env.run_dir);
  if (!options.shared_memory.empty()) {
    environment["OMPI_MCA_btl_vader_backing_directory"] = options.shared_memory;
    environment["OMPI_MCA_btl_sm_backing_directory"] = options.shared_memory;
  }
  if (options.as_root) allow_root(environment);
  const std::string hosts = fmt::format("localhost:{}", options.env.world_size);
  find_mpirun(lookup);
  // By its name: called by its path, it puts its own directory before the user's in PATH.
  return call_of(options, {"mpirun", "--host", hosts, "--oversubscribe"}, std::move(environment),
                 lookup);
}

MpirunCall pod_mpirun(const PodMpi& options, const contract::EnvironmentLookup& lookup) {
  find_mpirun(lookup);
  // By its name: called by its path, it asks its daemons to be started by theirs.
  return call_of(options, {"mpirun", "--hostfile", options.env.hostfile},
                 pod_environment(options.ssh_config), lookup);
}

std::filesystem::path find_mpirun(const contract::EnvironmentLookup& lookup) {
  std::istringstream path(lookup("PATH").value_or("/usr/bin:/bin"));
  for (std::string directory; std::getline(path, directory, ':');) {
    const auto file = std::filesystem::path(directory) / "mpirun";
    if (access(file.c_str(), X_OK) == 0) return file;
  }
  throw Error(ExitCode::kBadInput,
              "[launch] mpirun is not installed: install Open MPI (Debian and Ubuntu: apt-get "
              "install openmpi-bin)");
}

}  // namespace coxswain::launch
