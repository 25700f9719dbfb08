#include "trainer/train/training_loop.h"

#include "trainer/train/training.h"

namespace coxswain::train {

Result train(const TrainOptions& options, Collaborators collaborators) {
  Training training(options, collaborators);
  training.start();
  while (!training.done()) training.run_epoch();
  return training.finish();
}

}  // namespace coxswain::train
