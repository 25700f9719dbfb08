#include "trainer/contract/worker/worker_env.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

namespace coxswain::contract {

namespace {

EnvironmentLookup lookup_in(const std::map<std::string, std::string>& variables) {
  return [&variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

}  // namespace

TEST(WorkerEnv, comes_back_from_its_variables) {
  WorkerEnv env;
  env.job = "mnist";
  env.job_uid = "4f5c0a61-0d6c-4d0a-9b6e-3f1f5c1a2b3c";
  env.role = Role::kServer;
  env.index = 3;
  env.attempt = 2;
  env.incarnation = 1;
  env.restart_cause = "Node: worker-1: its node, \"n\", is gone";
  env.world_size = 8;
  env.slots = 2;
  env.config = "/etc/coxswain/training.yaml";
  env.checkpoints = "/checkpoints";
  env.hostfile = "/etc/coxswain/hostfile";
  env.servers = {"a:9500", "[::1]:9501"};
  env.batch_per_worker = true;
  env.startup_seconds = 30;
  env.ssh_port = 20040;
  env.rank_port = 20041;
  env.peer_port = 20044;
  env.key = "/etc/coxswain/keys/server_key";
  env.run_dir = "/tmp/run dir";
  const auto variables = to_env(env);
  EXPECT_EQ(variables.size(), 20U);
  EXPECT_EQ(variables.at("COXSWAIN_SERVERS"), "a:9500,[::1]:9501");
  EXPECT_EQ(from_env(lookup_in(variables)), env);
  const auto names = worker_env_names();
  for (const auto& [name, value] : variables) EXPECT_EQ(std::ranges::count(names, name), 1) << name;
}

TEST(WorkerEnv, leaves_empty_values_out_and_has_defaults_for_them) {
  WorkerEnv env;
  env.job = "mnist";
  const auto variables = to_env(env);
  EXPECT_EQ(variables, (std::map<std::string, std::string>{{"COXSWAIN_JOB", "mnist"},
                                                           {"COXSWAIN_ROLE", "worker"},
                                                           {"COXSWAIN_INDEX", "0"},
                                                           {"COXSWAIN_ATTEMPT", "0"},
                                                           {"COXSWAIN_WORLD_SIZE", "1"},
                                                           {"COXSWAIN_SLOTS", "1"},
                                                           {"COXSWAIN_STARTUP_SECONDS", "600"}}));
  EXPECT_EQ(from_env(lookup_in({{"COXSWAIN_JOB", "mnist"}})), env);
}

TEST(WorkerEnv, takes_an_empty_value_of_any_name_as_none) {
  WorkerEnv env;
  env.job = "mnist";
  std::map<std::string, std::string> variables;
  for (const std::string& name : worker_env_names()) variables[name] = "";
  variables["COXSWAIN_JOB"] = "mnist";
  EXPECT_EQ(from_env(lookup_in(variables)), env);
  env.terminal_columns = 80;
  env.log_format = "json";
  for (const auto& [name, value] : to_env(env)) EXPECT_TRUE(variables.contains(name)) << name;
}

TEST(WorkerEnv, names_the_variable_and_its_value_when_it_is_wrong) {
  const std::vector<std::tuple<std::string, std::string, std::string>> cases{
      {"COXSWAIN_ROLE", "master", "[worker] COXSWAIN_ROLE=master: must be worker or server"},
      {"COXSWAIN_JOB_UID", "../x",
       "[worker] COXSWAIN_JOB_UID=../x: must be at most 64 letters, digits and hyphens"},
      {"COXSWAIN_SSH_PORT", "0", "[worker] COXSWAIN_SSH_PORT=0: must be an integer, 1..65535"},
      {"COXSWAIN_INDEX", "-1", "[worker] COXSWAIN_INDEX=-1: must be an integer, 0..262143"},
      {"COXSWAIN_ATTEMPT", "x", "[worker] COXSWAIN_ATTEMPT=x: must be an integer, 0..2147483647"},
      {"COXSWAIN_WORLD_SIZE", "0", "[worker] COXSWAIN_WORLD_SIZE=0: must be an integer, 1..262144"},
      {"COXSWAIN_SLOTS", "1 ", "[worker] COXSWAIN_SLOTS=1 : must be an integer, 1..1024"},
      {"COXSWAIN_STARTUP_SECONDS", "99999999999",
       "[worker] COXSWAIN_STARTUP_SECONDS=99999999999: must be an integer, 1..2147483647"},
      {"COXSWAIN_BATCH_ON_RESIZE", "halve",
       "[worker] COXSWAIN_BATCH_ON_RESIZE=halve: must be keep or perWorker"},
      {"COXSWAIN_SERVERS", "a:1,b",
       "[worker] COXSWAIN_SERVERS=b: must be host:port, port 1..65535"},
      {"COXSWAIN_SERVERS", "a:99999",
       "[worker] COXSWAIN_SERVERS=a:99999: must be host:port, port 1..65535"},
      {"COXSWAIN_SERVERS", ":80",
       "[worker] COXSWAIN_SERVERS=:80: must be host:port, port 1..65535"},
      {"COXSWAIN_JOB", "", "[worker] COXSWAIN_JOB is not set: this command is started by a job"},
  };
  for (const auto& [name, value, message] : cases) {
    std::map<std::string, std::string> variables{{"COXSWAIN_JOB", "mnist"}};
    variables[name] = value;
    try {
      from_env(lookup_in(variables));
      ADD_FAILURE() << message;
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), message);
      EXPECT_EQ(error.code(), ExitCode::kBadInput);
    }
  }
}

TEST(WorkerEnv, reads_the_environment_of_the_process) {
  ASSERT_EQ(setenv("COXSWAIN_TEST_VARIABLE", "a=b", 1), 0);
  EXPECT_EQ(lookup_environment("COXSWAIN_TEST_VARIABLE"), "a=b");
  EXPECT_EQ(whole_environment().at("COXSWAIN_TEST_VARIABLE"), "a=b");
  ASSERT_EQ(unsetenv("COXSWAIN_TEST_VARIABLE"), 0);
  EXPECT_EQ(lookup_environment("COXSWAIN_TEST_VARIABLE"), std::nullopt);
  EXPECT_FALSE(whole_environment().contains("COXSWAIN_TEST_VARIABLE"));
  EXPECT_FALSE(has_worker_env(lookup_in({})));
  EXPECT_TRUE(has_worker_env(lookup_in({{"COXSWAIN_JOB", "mnist"}})));
}

}  // namespace coxswain::contract
