#include "trainer/train/saver.h"

#include <memory>
#include <utility>

#include "trainer/contract/error.h"

namespace coxswain::train {

Saver::Saver(const CheckpointOptions& options, const std::optional<std::string>& new_run,
             SaveGate& gate, Observer& observer, Now now)
    : options_(options),
      gate_(gate),
      observer_(observer),
      writer_({.directory = options.directory,
               .keep = options.keep,
               .keep_epochs = options.keep_epochs,
               .max_failures = options.max_failures,
               .new_run = new_run}),
      now_(std::move(now)) {}

bool due_by_epochs(const CheckpointOptions& options, std::int64_t epochs) {
  return options.every_epochs > 0 && epochs > 0 && epochs % options.every_epochs == 0;
}

bool Saver::due(std::int64_t step, std::int64_t epochs) const {
  return (options_.every_steps > 0 && step % options_.every_steps == 0) ||
         due_by_epochs(options_, epochs) || due_by_time();
}

bool Saver::due_by_time() const {
  const std::chrono::duration<double> elapsed = now_() - last_;
  return options_.every_seconds > 0 && elapsed.count() >= options_.every_seconds;
}

void Saver::start(std::function<checkpoint::Contents()> contents) {
  last_ = now_();
  writer_.start_save(guarded(std::move(contents)));
}

void Saver::wait() { writer_.wait(); }

// The writer drops the function when the save is over.
std::function<checkpoint::Contents()> Saver::guarded(
    std::function<checkpoint::Contents()> contents) {
  return [contents = std::move(contents), saving = std::make_shared<SaveGate::Saving>(gate_)] {
    return contents();
  };
}

void Saver::poll() {
  while (const auto result = writer_.poll()) tell(*result);
}

void Saver::save_now(std::function<checkpoint::Contents()> contents) {
  const checkpoint::SaveResult result = writer_.save_now(guarded(std::move(contents)));
  poll();
  tell(result);
  if (!result.error.empty()) throw Error(result.code, result.error);
}

void Saver::tell(const checkpoint::SaveResult& result) {
  const std::string path = (options_.directory / result.path.filename()).string();
  if (result.error.empty()) newest_ = path;
  observer_.saved({result.step, path, result.bytes, result.seconds, result.error});
}

}  // namespace coxswain::train
