#pragma once

#include "trainer/backend/parameters.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/optim/update_rule.h"
#include "trainer/train/executables.h"

namespace coxswain::train {

// The weights' average begins as they do.
void begin_average(const optim::UpdateRule& rule, const backend::Parameters& parameters);

// Resource. While it lives, weights are their average, where the rule keeps one.
class AveragedWeights {
 public:
  AveragedWeights(const optim::UpdateRule& rule, const backend::Parameters& parameters,
                  Executables& executables)
      : rule_(rule), parameters_(parameters), executables_(executables) {
    exchange();
  }
  ~AveragedWeights() { exchange(); }
  AveragedWeights(const AveragedWeights&) = delete;
  AveragedWeights& operator=(const AveragedWeights&) = delete;

 private:
  void exchange();

  const optim::UpdateRule& rule_;
  const backend::Parameters& parameters_;
  Executables& executables_;
};

// The averages of a checkpoint that holds some are its weights.
void begin_averages(checkpoint::Contents& contents);

// Puts the averages of a checkpoint that holds some in its weights' place; false: it holds none.
bool take_averages(checkpoint::Contents& contents);

}  // namespace coxswain::train
