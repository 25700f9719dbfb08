#include "operator/job/worker_spec.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/job_builders.h"
#include "tests/support/test_flags.h"
#include "trainer/contract/config/config_reader.h"

namespace coxswain::test {

namespace {

std::string gang_text(const job::TrainingJob& job) {
  std::string text;
  for (const job::WorkerId& id : job::gang(job)) text += to_text(job::worker_spec(job, id));
  return text + "hostfile\n" + job::hostfile(job);
}

JobBuilder with_volumes(JobBuilder job) {
  job.spec().data_volume = job::Json{{"emptyDir", job::Json::object()}};
  job.spec().checkpoints_volume = job::Json{{"persistentVolumeClaim", {{"claimName", "c"}}}};
  return job;
}

JobBuilder with_own_command(JobBuilder job) {
  job.spec().training.reset();
  job.spec().worker.pod_template = job::Json::parse(
      R"({"spec":{"containers":[{"name":"trainer","command":["python"],"args":["train.py"]}]}})");
  return job;
}

}  // namespace

TEST(WorkerSpec, says_what_each_worker_is) {
  const std::pair<const char*, JobBuilder> jobs[] = {
      {"mpi", with_volumes(make_job()).running(2)},
      {"env", with_volumes(make_job().env()).running()},
      {"mpi_own_command",
       [] {
         auto job = with_own_command(make_job());
         job.spec().launcher = job::Launcher::kMpi;
         return job.running();
       }()},
      {"env_own_command", with_volumes(with_own_command(make_job())).running()},
      {"env_slots",
       [] {
         auto job = with_own_command(make_job());
         job.spec().slots_per_worker = 4;
         job.spec().rendezvous = {job::Framework::kPyTorch};
         return job.running();
       }()},
      {"parameter_server", make_job().servers(2).running()},
  };
  for (const auto& [name, job] : jobs)
    expect_golden(std::string("plans/workers/") + name + ".txt", gang_text(job));
}

TEST(WorkerSpec, tells_local_processes_nothing_of_pods) {
  const auto job = with_volumes(make_job()).running();
  job::Paths paths;
  paths.config = "/run/job/training.yaml";
  paths.hostfile.clear();
  paths.checkpoints = "/data/checkpoints";
  paths.run_dir = "/run/job";
  const job::WorkerSpec spec = job::worker_spec(job, {job::Role::kWorker, 0, 0}, paths);
  EXPECT_EQ(spec.environment.at("COXSWAIN_RUN_DIR"), "/run/job");
  EXPECT_EQ(spec.environment.at("COXSWAIN_CHECKPOINTS"), "/data/checkpoints");
  for (const auto& [name, value] : spec.environment)
    EXPECT_TRUE(name.starts_with("COXSWAIN_")) << name << "=" << value;
}

TEST(WorkerSpec, serving_workers_mount_no_checkpoints) {
  const auto job = with_volumes(make_job()).running();
  const auto first = job::worker_spec(job, {job::Role::kWorker, 0, 0});
  const auto second = job::worker_spec(job, {job::Role::kWorker, 1, 0});
  EXPECT_TRUE(first.mounts_checkpoints);
  EXPECT_FALSE(first.serves);
  EXPECT_FALSE(second.mounts_checkpoints);
  EXPECT_TRUE(second.serves);
  EXPECT_FALSE(second.environment.contains("COXSWAIN_CHECKPOINTS"));
}

TEST(TrainingConfig, holds_what_the_job_says) {
  auto job = make_job().running();
  job.spec().checkpoint.every_steps = 100;
  job.spec().checkpoint.keep = 7;
  const auto read = [](const job::TrainingJob& value) {
    return contract::read_config(job::training_config(value), "training.yaml", {}).config;
  };
  EXPECT_EQ(read(job).checkpoint.every_steps, 100);
  EXPECT_EQ(read(job).checkpoint.keep, 7);
  EXPECT_EQ(read(job).checkpoint.path, "");
  EXPECT_EQ(read(job).data.path, "/usr/share/coxswain/mnist");
  job = with_volumes(job);
  EXPECT_EQ(read(job).checkpoint.path, "/checkpoints");
  EXPECT_EQ(read(job).data.path, "/data");
  job.spec().training->at("data")["path"] = "/elsewhere";
  EXPECT_EQ(read(job).data.path, "/elsewhere");
}

TEST(TrainingConfig, is_empty_without_training_and_for_a_wrong_one) {
  auto job = make_job().running();
  job.spec().training = job::Json{{"model", "none"}};
  EXPECT_EQ(job::training_config(job), "");
  job.spec().training.reset();
  EXPECT_EQ(job::training_config(job), "");
}

TEST(Slots, auto_is_the_gpu_limit_of_the_trainer) {
  auto job = with_own_command(make_job());
  job.spec().slots_per_worker.reset();
  EXPECT_EQ(job::slots_per_worker(job.spec()), 1);
  auto& container = job.spec().worker.pod_template["spec"]["containers"][0];
  container["resources"]["limits"]["nvidia.com/gpu"] = "8";
  EXPECT_EQ(job::slots_per_worker(job.spec()), 8);
  container["resources"]["limits"]["nvidia.com/gpu"] = 4;
  EXPECT_EQ(job::slots_per_worker(job.spec()), 4);
}

}  // namespace coxswain::test
