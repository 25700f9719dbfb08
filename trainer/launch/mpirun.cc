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

std::map<std::string, std::string> local_environment() {
  return {
      // When a rank fails, mpirun waits so long before SIGTERM and again before KILL: time to save.
      {"OMPI_MCA_odls_base_sigkill_timeout", "10"},
      {"PRTE_MCA_odls_base_sigkill_timeout", "10"},
      // Ranks may share cores: a waiting one gives its core away.
      {"OMPI_MCA_mpi_yield_when_idle", "1"},
      // Naming the transports skips the search for fabrics: MPI_Init takes 40 ms instead of 250.
      {"OMPI_MCA_pml", "ob1"},
      {"OMPI_MCA_btl", "self,vader"},
      // mpirun's own connections stay on this machine.
      {"OMPI_MCA_oob_tcp_if_include", "lo"},
      {"PRTE_MCA_prte_if_include", "lo"},
      {"OMPI_MCA_mca_base_component_show_load_errors", "0"},
  };
}

}  // namespace

MpirunCall local_mpirun(const LocalMpi& options, const contract::EnvironmentLookup& lookup) {
  const contract::WorkerEnv& env = options.env;
  MpirunCall call;
  call.command = {find_mpirun(lookup),
                  "--host",
                  fmt::format("localhost:{}", env.world_size),
                  "-np",
                  std::to_string(env.world_size),
                  "--bind-to",
                  "none",
                  "--oversubscribe",
                  options.trainer,
                  "rank",
                  "--"};
  call.command.insert(call.command.end(), options.command.begin(), options.command.end());

  call.environment = local_environment();
  add_session_directory(call.environment, env.run_dir);
  if (!options.shared_memory.empty()) {
    call.environment["OMPI_MCA_btl_vader_backing_directory"] = options.shared_memory;
    call.environment["OMPI_MCA_btl_sm_backing_directory"] = options.shared_memory;
  }
  if (options.as_root) allow_root(call.environment);
  std::erase_if(call.environment, [&](const auto& entry) { return lookup(entry.first); });
  call.environment.merge(contract::to_env(env));
  return call;
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
