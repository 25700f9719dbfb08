#include "operator/job/observed.h"
#include "operator/job/roles.h"
#include "operator/job/worker_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/job_builders.h"
#include "tests/support/test_flags.h"
#include "trainer/contract/config/config_reader.h"

namespace coxswain::test {

namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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

JobBuilder one_rank_under_env() {
  auto job = make_job().workers(1);
  job.spec().launcher = job::Launcher::kEnv;
  return job;
}

}  // namespace

TEST(WorkerSpec, says_what_each_worker_is) {
  const std::pair<const char*, JobBuilder> jobs[] = {
      {"mpi", with_volumes(make_job()).running(2)},
      {"env", with_volumes(one_rank_under_env()).running()},
      {"mpi_own_command",
       [] {
         auto job = make_job().env();
         job.spec().launcher = job::Launcher::kMpi;
         return job.running();
       }()},
      {"env_own_command", with_volumes(make_job().env()).running()},
      {"env_slots",
       [] {
         auto job = make_job().env();
         job.spec().slots_per_worker = 4;
         job.spec().rendezvous = {job::Framework::kPyTorch};
         return job.running();
       }()},
      {"parameter_server", make_job().servers(2).running()},
      {"parameter_server_own_command", make_job().own_servers(1).running()},
      {"mxnet", make_job().mxnet(2).running()},
  };
  for (const auto& [name, job] : jobs)
    expect_golden(std::string("plans/workers/") + name + ".txt", gang_text(job));
}

TEST(WorkerSpec, tells_the_first_worker_why_its_attempt_began) {
  const auto cause_of = [](const job::TrainingJob& job, int index) {
    const auto spec = job::worker_spec(job, {job::Role::kWorker, index, 1});
    const auto found = spec.environment.find("COXSWAIN_RESTART_CAUSE");
    return found == spec.environment.end() ? "" : found->second;
  };
  job::TrainingJob job = make_job().running(2);
  EXPECT_EQ(cause_of(job, 0), "");
  const job::Stamp stamp;
  set_condition(job.status, job::condition::kRestarting,
                {true, "Failure", "worker-1 exit=137 Error: \x1b[2J"}, stamp);
  EXPECT_EQ(cause_of(job, 0), "Failure: worker-1 exit=137 Error: \\x1b[2J");
  EXPECT_EQ(cause_of(job, 1), "") << "who keeps no history";
  clear_condition(job.status, job::condition::kRestarting, "Running", stamp);
  EXPECT_EQ(cause_of(job, 0), "");
  set_condition(job.status, job::condition::kQueued, {true, "Replacing", "worker-0 exit=1"}, stamp);
  EXPECT_EQ(cause_of(job, 0), "worker-0 exit=1");
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

TEST(WorkerSpec, tells_ranks_what_becomes_of_the_batch) {
  auto job = make_job().elastic(1, 4).running();
  const auto told = [&] {
    const auto spec = job::worker_spec(job, {job::Role::kWorker, 0, 0});
    const auto found = spec.environment.find("COXSWAIN_BATCH_ON_RESIZE");
    return found == spec.environment.end() ? "" : found->second;
  };
  EXPECT_EQ(told(), "");
  job.spec().elastic->batch = job::BatchOnResize::kPerWorker;
  EXPECT_EQ(told(), "perWorker");
}

TEST(WorkerSpec, tells_horovod_that_mpirun_starts_it) {
  const auto told = [](JobBuilder job) {
    job.spec().launcher = job::Launcher::kMpi;
    const auto spec = job::worker_spec(job.running(), {job::Role::kWorker, 1, 0});
    const auto found = spec.environment.find("HOROVOD_CONTROLLER");
    return found == spec.environment.end() ? "" : found->second;
  };
  EXPECT_EQ(told(make_job().env()), "mpi");
  EXPECT_EQ(told(make_job()), "") << "our trainer is none";
  auto job = make_job();
  job.spec().rendezvous = {job::Framework::kHorovod};
  EXPECT_EQ(told(job), "mpi");
  job = make_job().env();
  job.spec().rendezvous.emplace();
  EXPECT_EQ(told(job), "");
  job = make_job().env();
  job.spec().worker.pod_template["spec"]["containers"][0]["env"] = {
      {{"name", "HOROVOD_CONTROLLER"}, {"value", "gloo"}}};
  EXPECT_EQ(told(job), "") << "the template knows better";
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
  job.spec().checkpoint.every_epochs = 2;
  job.spec().checkpoint.keep_epochs = 0;
  job.spec().checkpoint.best = KeptBest::kAccuracy;
  job.spec().checkpoint.from = job::CheckpointFrom{4, std::nullopt, std::nullopt};
  job.spec().checkpoint.keep = 7;
  const auto read = [](const job::TrainingJob& value) {
    return contract::read_config(job::training_config(value), "training.yaml", {}).config;
  };
  EXPECT_EQ(read(job).checkpoint.every_steps, 100);
  EXPECT_EQ(read(job).checkpoint.every_epochs, 2);
  EXPECT_EQ(read(job).checkpoint.keep_epochs, 0);
  EXPECT_EQ(read(job).checkpoint.best, KeptBest::kAccuracy);
  EXPECT_EQ(read(job).checkpoint.from_epoch, 4);
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

// github.com/pytorch/pytorch/torch/distributed/argparse_util.py: the default of a flag of torchrun
// is the environment's PET_ and the flag's name in capitals.
TEST(WorkerSpec, plain_torchrun_finds_each_other) {
  auto job = make_job().workers(4).env();
  job.spec().slots_per_worker = 2;
  auto environment = job::worker_spec(job.running(), {job::Role::kWorker, 1, 0}).environment;
  EXPECT_EQ(environment.at("PET_NNODES"), "4");
  EXPECT_EQ(environment.at("PET_NPROC_PER_NODE"), "2");
  EXPECT_EQ(environment.at("PET_NODE_RANK"), "1");
  EXPECT_EQ(environment.at("PET_MASTER_ADDR"), environment.at("MASTER_ADDR"));
  EXPECT_EQ(environment.at("PET_MASTER_PORT"), "23456");
}

// tensorflow.org/guide/distributed_training: with parameter servers one task is the chief, and the
// workers count from 0 without it.
TEST(WorkerSpec, a_lone_worker_beside_parameter_servers_is_tensorflows_chief) {
  const auto job = make_job().workers(1).own_servers(1).running();
  const auto config = job::Json::parse(job::worker_spec(job, {}).environment.at("TF_CONFIG"));
  EXPECT_EQ(config["task"], (job::Json{{"type", "chief"}, {"index", 0}}));
  EXPECT_FALSE(config["cluster"].contains("worker"));
}

TEST(WorkerSpec, mxnets_scheduler_is_none_of_tensorflows_tasks) {
  auto job = make_job().mxnet(1);
  job.spec().rendezvous->push_back(job::Framework::kTensorFlow);
  job.running();
  const auto of = [&](job::Role role) { return job::worker_spec(job, {role, 0, 0}).environment; };
  const auto config = job::Json::parse(of(job::Role::kServer).at("TF_CONFIG"));
  EXPECT_EQ(config["cluster"].size(), 3U) << "ps, chief, worker: " << config;
  EXPECT_FALSE(of(job::Role::kScheduler).contains("TF_CONFIG"));
}

TEST(WorkerSpec, counts_the_gpus_and_not_the_slots) {
  auto job = make_job().env();
  job.spec().slots_per_worker = 2;
  const auto gpus = [&] {
    return job::worker_spec(job.running(), {}).environment.at("DEEPLEARNING_WORKER_GPU_COUNT");
  };
  EXPECT_EQ(gpus(), "0");
  auto& container = job.spec().worker.pod_template["spec"]["containers"][0];
  container["resources"]["limits"]["nvidia.com/gpu"] = 8;
  EXPECT_EQ(gpus(), "8");
}

TEST(Slots, auto_is_the_gpu_limit_of_the_trainer) {
  auto job = make_job().env();
  job.spec().slots_per_worker = 0;
  EXPECT_EQ(job::slots_per_worker(job.spec()), 1);
  auto& container = job.spec().worker.pod_template["spec"]["containers"][0];
  container["resources"]["limits"]["nvidia.com/gpu"] = "8";
  EXPECT_EQ(job::slots_per_worker(job.spec()), 8);
  container["resources"]["limits"]["nvidia.com/gpu"] = 4;
  EXPECT_EQ(job::slots_per_worker(job.spec()), 4);
  container["resources"]["limits"] = {{"nvidia.com/mig-1g.10gb", 2}};
  EXPECT_EQ(job::slots_per_worker(job.spec()), 2);
}

// The image, and the device that the ranks are told of: in a pod, and on this machine.
TEST(Gpus, of_nvidias_bring_their_image_and_their_device) {
  struct Case {
    job::Json limits, training;
    const char *image, *in_pod, *here;
  };
  const std::vector<Case> cases = {
      {{{"nvidia.com/gpu", 2}}, {}, "coxswain/trainer-cuda", "device: cuda", "device: auto"},
      {{{"nvidia.com/mig-1g.10gb", 1}},
       {},
       "coxswain/trainer-cuda",
       "device: cuda",
       "device: auto"},
      {{{"nvidia.com/gpu", 1}}, {{"device", "cpu"}}, "coxswain/trainer-cuda", nullptr, nullptr},
      {{{"nvidia.com/gpu", 0}}, {}, "coxswain/trainer-cpu", nullptr, nullptr},
      {{{"amd.com/gpu", 2}}, {}, "coxswain/trainer-cpu", nullptr, nullptr},
      {{{"cpu", 2}}, {}, "coxswain/trainer-cpu", nullptr, nullptr}};
  const auto expect_device = [](const std::string& config, const char* device) {
    if (device)
      EXPECT_THAT(config, HasSubstr(device));
    else
      EXPECT_THAT(config, Not(HasSubstr("device:")));
  };
  for (const auto& [limits, training, image, in_pod, here] : cases) {
    SCOPED_TRACE(limits.dump() + training.dump());
    auto job = make_job();
    job.spec().worker.pod_template = {
        {"spec", {{"containers", {{{"name", "trainer"}, {"resources", {{"limits", limits}}}}}}}}};
    if (!training.is_null()) job.spec().training->update(training);
    EXPECT_EQ(job::image_of(job.spec(), {}), image);
    expect_device(job::training_config(job.running()), in_pod);
    job::Paths local;
    local.gpu = Device::kAuto;
    expect_device(job::training_config(job.running(), local), here);
    job.spec().image = "mine:1";
    EXPECT_EQ(job::image_of(job.spec(), {}), "mine:1");
  }
}

}  // namespace coxswain::test
