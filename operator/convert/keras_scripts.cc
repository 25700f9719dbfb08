#include <array>

#include "operator/convert/script.h"

// The lab of TensorFlow and Horovod on eight GPUs: Keras' CNN on the digits.
namespace coxswain::convert {

namespace {

constexpr auto kKerasOptions = std::to_array<Option>({
    {.names = "--batch-size", .key = "training.batchSize"},
});

void begin_keras(Draft& draft) {
  draft.put("training", Json{{"model", "keras-cnn"},
                             {"epochs", 8},
                             {"batchSize", 256},
                             {"optimizer", {{"name", "adam"}, {"lr", 0.001}}},
                             {"data", {{"format", "mnist"}, {"lastBatch", "rollover"}}}});
}

void end_keras(const Launch&, Draft& draft) {
  draft.note(Outcome::kMind, "tf.optimizers.Adam()",
             "its rate doesn't grow with the ranks; lrSchedule: {scaling: linear, warmupEpochs: 1} "
             "keeps the accuracy that more ranks cost the lab");
}

constexpr auto kKerasScripts = std::to_array<Script>({
    {"cnn_fmnist.py", "the Keras lab's cnn_fmnist.py", kKerasOptions, begin_keras, end_keras},
});

}  // namespace

std::span<const Script> keras_scripts() { return kKerasScripts; }

}  // namespace coxswain::convert
