#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "trainer/backend/backend.h"
#include "trainer/checkpoint/reader.h"
#include "trainer/commands.h"
#include "trainer/contract/config/config_reader.h"
#include "trainer/contract/worker/worker_env.h"
#include "trainer/data/dataset.h"
#include "trainer/train/train_options.h"

namespace coxswain {

// From the configuration to each folder's options: the one place that knows both sides.

// From --config and flags; throws Error.
contract::ConfigResult read_configuration(const CommandLine& line);

std::unique_ptr<data::Dataset> open_training_set(const contract::TrainerConfig& config);
std::unique_ptr<data::Dataset> open_test_set(const contract::TrainerConfig& config);

// How pictures that are scored are decoded.
data::PictureOptions test_picture_options(const contract::TrainerConfig& config);

// Cores for each of `ranks_here` ranks, from the affinity and the cgroup's quota; at least 1.
// anyWorldSize takes one, whatever the machine, unless the configuration says otherwise.
int threads_per_rank(const contract::TrainerConfig& config, int ranks_here);

// Threads of each of `ranks_here` ranks that read and prepare images.
int loader_threads(const contract::TrainerConfig& config, int ranks_here);

// The GPU that a rank computes on, with what its process sees (choose_gpu); nothing: the CPU.
std::optional<int> gpu_of_rank(const contract::TrainerConfig& config, int ranks_here = 1,
                               int local_rank = 0);

std::unique_ptr<backend::Backend> make_backend(const contract::TrainerConfig& config, int threads,
                                               std::optional<int> gpu);

// `env` is that of a rank in a job, or nothing for a training started by hand.
train::TrainOptions make_train_options(const contract::TrainerConfig& config,
                                       const std::optional<contract::WorkerEnv>& env);

// One checkpoint, or the newest of a directory, with its averages for weights where it holds some;
// tells of that and of what was passed over. Throws Error as checkpoint::load_from.
checkpoint::Loaded load_checkpoint(const std::filesystem::path& path);

// Reads the network of modelFile, where one is given; what is of ONNX brings its weights, unless
// `pretrained` does.
void take_network(const contract::TrainerConfig& config, train::TrainOptions& options);

// The network that a checkpoint keeps, where its model is the user's own.
void take_network(const checkpoint::Loaded& loaded, train::TrainOptions& options);

}  // namespace coxswain
