#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "operator/convert/convert.h"
#include "operator/job/job_reader.h"
#include "operator/job/validation.h"
#include "tests/support/test_flags.h"

namespace coxswain::test {

namespace {

using convert::Converted;
using convert::Outcome;
using Words = std::vector<std::string>;

const std::map<std::string, std::string> kFiles = {
    {"hosts", "deeplearning-worker1\ndeeplearning-worker2\n"},
    {"host_file", "localhost:4\n"},
    {"open_mpi", "# two machines\nnode1 slots=2 max-slots=4\nnode2 slots=2\n"},
    {"no_hostfile", "node1 slots=many\n"},
};

Converted converted(const Words& words, const std::string& image = "") {
  const convert::ReadFile read = [](const std::string& path) -> std::optional<std::string> {
    const auto file = kFiles.find(path);
    if (file == kFiles.end()) return std::nullopt;
    return file->second;
  };
  return convert::from_command(words, {.name = "", .image = image, .read_file = read});
}

// What both streams of the command show.
std::string shown(const Converted& result) {
  std::string text;
  for (const convert::Note& note : result.notes) text += "# " + to_text(note) + "\n";
  for (const job::Problem& problem : result.problems) text += "# " + to_text(problem) + "\n";
  if (!convert::is_whole(result)) return text + "# not converted\n";
  return text + convert::to_yaml(result);
}

struct Case {
  const char* name;
  Words words;
  std::string image = {};
};

// As people have them: of the five labs, and of others' documentation.
std::vector<Case> commands() {
  return {
      {"mxnet_two_workers",
       {"../../tools/launch.py", "-n", "2", "-s", "2", "-H", "hosts", "python", "train_cifar10.py",
        "--network", "resnet", "--num-layers", "8", "--kv-store", "dist_device_sync", "--num-epoch",
        "2"}},
      {"mxnet_one_line",
       {"launch.py -n 2 -H hosts \\\n  python train_cifar10.py --gpus 0,1 --network resnet "
        "--num-layers 50 --kv-store dist_device_sync --num-epoch 2"}},
      {"mxnet_mnist", {"python", "train_mnist.py", "--network", "lenet", "--num-epochs=5"}},
      {"mxnet_async_adam",
       {"launch.py", "-n", "4", "-s", "1", "--launcher", "local", "python3", "train_mnist.py",
        "--kv-store=dist_async", "--optimizer", "adam", "--lr", "0.001", "--lr-factor", "1"}},
      {"mxnet_distortions",
       {"python", "train_cifar10.py", "--network", "resnet", "--num-layers", "20", "--random-crop",
        "1", "--random-mirror", "1", "--pad-size", "4", "--max-random-h", "36", "--max-random-s",
        "50", "--max-random-l", "50", "--max-random-rotate-angle", "10", "--max-random-shear-ratio",
        "0.1", "--max-random-aspect-ratio", "0.25", "--brightness", "0.4", "--pca-noise", "0.1",
        "--rgb-mean", "123.68,116.779,103.939", "--rgb-std", "58.395,57.12,57.375"}},
      {"mxnet_imagenet",
       {"launch.py", "-n", "2", "-H", "hosts", "python", "train_imagenet.py", "--num-layers", "18",
        "--kv-store", "dist_device_sync", "--random-resized-crop", "1", "--random-mirror", "1"}},
      {"d2l",
       {"!python /opt/conda/mxnet/tools/launch.py -n 2 -s 2 --sync-dst-dir /tmp/lab --launcher "
        "local \"python multimachine_cifar10_train.py\""}},
      {"imagenet",
       {"python", "imagenet-distributed.py", "-n", "2", "-g", "1", "-nr", "0", "--epochs", "2"}},
      {"singa",
       {"/opt/mpich-3.3/build/bin/mpiexec", "--hostfile", "host_file", "python3",
        "mnist_dist_demo.py"}},
      {"singa_mpi",
       {"mpiexec", "--hostfile", "host_file", "-n", "4", "python", "train_mpi.py", "cnn", "mnist",
        "-l", "0.01", "-b32"}},
      {"keras",
       {"!TF_CPP_MIN_LOG_LEVEL=3 horovodrun -np 8 --mpi-args=\"--oversubscribe\" python3 "
        "../source_code/N3/cnn_fmnist.py --batch-size=2048 2> /dev/null"}},
      {"horovodrun_own_script",
       {"NCCL_DEBUG=INFO", "horovodrun", "-np", "8", "-H", "h1:4,h2:4", "--min-np", "4", "--max-np",
        "16", "python", "train.py"},
       "registry.example.org/horovod:1"},
      {"main_amp",
       {"python", "-m", "torch.distributed.launch", "--nproc_per_node=2", "main_amp.py", "-a",
        "resnet50", "--b", "224", "--workers", "4", "--opt-level", "O2", "--sync_bn", "./"}},
      {"torchrun",
       {"torchrun", "--nnodes", "2", "--nproc-per-node", "2", "--rdzv-backend=c10d",
        "--rdzv-endpoint=h1:29400", "--max-restarts=3", "train.py", "--epochs", "3"},
       "registry.example.org/ddp:1"},
      {"torchrun_elastic",
       {"torchrun", "--nnodes=1:4", "--nproc_per_node=1", "-m", "pkg.train"},
       "registry.example.org/ddp:1"},
      {"torch_launch",
       {"OMP_NUM_THREADS=2", "python3", "-u", "-m", "torch.distributed.launch", "--nnodes=2",
        "--node_rank=0", "--master_addr=h1", "--use_env", "train.py"}},
      {"mpirun",
       {"mpirun", "-np", "4", "-H", "h1:2,h2:2", "-bind-to", "none", "-map-by", "slot", "-x",
        "NCCL_DEBUG=INFO", "-x", "PATH", "-mca", "btl", "^openib", "python", "train.py"},
       "registry.example.org/mpi:1"},
      {"mpirun_hostfile",
       {"mpirun", "--hostfile", "open_mpi", "./solve", "-n", "3"},
       "registry.example.org/mpi:1"},
      {"mxnet_own_script",
       {"launch.py", "-n", "3", "--env", "A=1", "--launcher", "ssh", "-H", "hosts", "python",
        "gluon.py", "--kv-store", "dist_sync"},
       "mxnet/python:1.9.1"},
      {"tensorflow", {"python", "train.py", "--strategy=MultiWorkerMirroredStrategy"}},
      {"singa_half",
       {"mpiexec", "-n", "2", "-envall", "python3", "train_mpi.py", "cnn", "mnist", "-d", "half"}},
      {"singa_sparse",
       {"mpirun", "-np", "2", "--merge-stderr-to-stdout", "python3", "train_mpi.py", "cnn", "mnist",
        "-d", "sparseTopK", "-s", "0.1"}},
      {"in_front",
       {"%%bash\nsudo -E nohup time mpirun -np 2 python train.py > log 2>&1 &"},
       "registry.example.org/mpi:1"},
  };
}

// What has no place, and why.
std::vector<Case> refusals() {
  return {
      {"unknown_option", {"horovodrun", "-np", "2", "--colour", "python", "cnn_fmnist.py"}},
      {"misspelt_option", {"python", "train_mnist.py", "--num-epoks", "3"}},
      {"ambiguous_option", {"python", "train_mnist.py", "--lr-", "3"}},
      {"option_without_value", {"mpirun", "-np"}},
      {"option_without_name", {"mpirun", "-np", "2", "-=x", "./solve"}},
      {"pipe", {"mpirun -np 2 python train.py | tee log"}},
      {"list", {"cd lab && python train_mnist.py"}},
      {"substitution",
       {"launch.py -n $COUNT python train_cifar10.py --gpus $(seq -s , 0 $((G - 1))) --lr `x`"}},
      {"open_quote", {"mpirun -np 2 'python train.py"}},
      {"no_such_hostfile", {"mpiexec", "--hostfile", "gone", "python", "train_mpi.py"}},
      {"not_a_hostfile", {"mpiexec", "--hostfile", "no_hostfile", "python", "train_mpi.py"}},
      {"ranks_unknown", {"mpirun", "python", "train.py"}},
      {"no_program", {"horovodrun", "-np", "2"}},
      {"two_launchers", {"mpirun", "-np", "2", "torchrun", "train.py"}},
      {"not_a_number", {"torchrun", "--nnodes", "many", "train.py"}},
      {"value_of_training", {"python", "cnn_fmnist.py", "--batch-size", "big"}},
      {"no_such_model",
       {"mpiexec", "-n", "2", "python", "train_mpi.py", "xceptionnet", "cifar100"}},
      {"distortion",
       {"python", "train_cifar10.py", "--num-layers", "20", "--min-random-area", "0.5"}},
      {"singa_partial",
       {"mpiexec", "-n", "2", "python3", "train_mpi.py", "cnn", "mnist", "-d", "partialUpdate"}},
      {"other_launcher", {"srun", "-N2", "-n8", "python", "train.py"}},
      {"inner_launcher", {"conda", "run", "-n", "lab", "torchrun", "train.py"}},
      {"inner_line", {"bash", "-c", "ulimit -l unlimited; mpirun -np 2 ./solve"}},
      {"two_programs", {"mpirun", "-np", "1", "./a", ":", "-np", "3", "./b"}},
      {"tpu", {"python", "train.py", "--strategy", "TPUStrategy"}},
      {"empty", {""}},
  };
}

void expect_golden_commands(const std::vector<Case>& cases, bool whole) {
  for (const Case& test : cases) {
    const Converted result = converted(test.words, test.image);
    EXPECT_EQ(convert::is_whole(result), whole) << test.name;
    std::string text;
    for (const std::string& word : test.words) text += (text.empty() ? "$ " : " ") + word;
    expect_golden(std::string("convert/") + test.name + ".txt", text + "\n" + shown(result));
  }
}

}  // namespace

TEST(Convert, makes_jobs_of_commands) { expect_golden_commands(commands(), true); }
TEST(Convert, refuses_what_has_no_place) { expect_golden_commands(refusals(), false); }

// What is printed is read again, as `coxswain validate` reads it.
TEST(Convert, prints_jobs_that_can_start) {
  for (const Case& test : commands()) {
    const Converted result = converted(test.words, test.image);
    const job::TrainingJob read = job::read_job(convert::to_yaml(result), "job.yaml");
    EXPECT_EQ(job::validate(read, {}), std::vector<job::Problem>{}) << test.name;
    EXPECT_EQ(read.spec, result.job.spec) << test.name;
  }
}

// Any words get an answer, and a job that is printed is the job that is read.
TEST(Convert, has_an_answer_to_any_words) {
  std::mt19937_64 random(flags().seed);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const std::vector<Case> known = commands();
  for (int round = 0; round < 2000; ++round) {
    std::string line;
    for (const std::string& word : known[below(known.size())].words)
      line += (line.empty() ? "" : " ") + word;
    for (std::size_t i = 0; i <= below(4); ++i) {
      const std::size_t at = below(line.size());
      const std::string& other = known[below(known.size())].words.back();
      if (below(2) == 0)
        line[at] = static_cast<char>(below(256));
      else
        line.replace(at, below(8), other.substr(below(other.size() + 1), 6));
      if (line.empty()) line = " ";
    }
    const Converted result = converted({line});
    ASSERT_FALSE(result.notes.empty()) << line;
    if (!convert::is_whole(result)) continue;
    const std::string text = convert::to_yaml(result);
    EXPECT_EQ(job::read_job(text, "job.yaml").spec, result.job.spec) << line << "\n" << text;
  }
}

TEST(Convert, fills_hosts_one_after_the_other) {
  using convert::place_ranks;
  using convert::Placement;
  const std::vector<convert::Host> four_and_four = {{"a", 4}, {"b", 4}};
  EXPECT_EQ(place_ranks(8, four_and_four), (Placement{2, 4, false}));
  EXPECT_EQ(place_ranks({}, four_and_four), (Placement{2, 4, false}));
  EXPECT_EQ(place_ranks(4, four_and_four), (Placement{1, 4, false}));
  EXPECT_EQ(place_ranks(3, four_and_four), (Placement{1, 3, false}));
  EXPECT_EQ(place_ranks(6, four_and_four), (Placement{6, 1, true}));
  EXPECT_EQ(place_ranks(16, four_and_four), (Placement{2, 8, false}));
  EXPECT_EQ(place_ranks(8, {}), (Placement{8, 1, false}));
}

TEST(Convert, reads_hosts_as_launchers_write_them) {
  using convert::Host;
  using Hosts = std::vector<Host>;
  EXPECT_EQ(convert::read_host_list("h1:4,h2"), (Hosts{{"h1", 4}, {"h2", 1}}));
  EXPECT_EQ(convert::read_hostfile("h1 slots=2\n\n# x\nh1 slots=1\nuser@h2\n"),
            (Hosts{{"h1", 3}, {"user@h2", 1}}));
  for (const char* wrong : {"", ":4", "h:0", "h:x", "-h", "h:2000"})
    EXPECT_FALSE(convert::read_host_list(wrong)) << wrong;
  for (const char* wrong : {"", "# x", "h slots=0", "h slot=2", "h two"})
    EXPECT_FALSE(convert::read_hostfile(wrong)) << wrong;
}

TEST(Convert, names_jobs) {
  EXPECT_EQ(convert::job_name("lab/train_cifar10.py"), "train-cifar10");
  EXPECT_EQ(convert::job_name("3d.py"), "job-3d");
  EXPECT_EQ(convert::job_name(""), "job");
  EXPECT_EQ(convert::job_name(std::string(80, 'a')).size(), 51u);
}

}  // namespace coxswain::test
