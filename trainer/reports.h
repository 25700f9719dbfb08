#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainer/contract/config/trainer_config.h"
#include "trainer/contract/error.h"
#include "trainer/contract/worker/worker_env.h"
#include "trainer/report/json_log.h"
#include "trainer/report/observers.h"
#include "trainer/report/progress_bar.h"
#include "trainer/report/progress_endpoint.h"
#include "trainer/report/tensorboard_log.h"
#include "trainer/report/text_sink.h"

namespace coxswain {

// Resource. What rank 0 shows, serves and writes. A rank of a job keeps the last line for `coxswain
// run`, which knows of restarts.
class Reports {
 public:
  // `directory`: of the checkpoints; empty: there is none, and nothing is written.
  Reports(const std::string& log_format, const std::optional<contract::WorkerEnv>& env,
          const contract::TrainerConfig& config, const std::filesystem::path& directory);

  train::Observer& observer() { return *observers_; }
  contract::ProgressDocument latest() const;

  // The last words of an attempt that ends with an error, and its page; on any thread.
  void leave(ExitCode code, const std::string& reason, const std::string& text);
  // report.html, where it is asked for; what can't be written is told, and costs nothing else.
  void write_page();

 private:
  // history.jsonl: what can't be written there is left out, as on a slow terminal.
  class History {
   public:
    History(const std::filesystem::path& directory, const std::string& first_line);
    ~History();
    History(const History&) = delete;
    History& operator=(const History&) = delete;

    report::JsonLog& log() { return *log_; }
    void append(const std::string& line);  // on any thread

   private:
    int file_;
    std::optional<report::TextSink> sink_;
    std::optional<report::JsonLog> log_;
  };

  void serve(const contract::WorkerEnv& env);

  const std::filesystem::path directory_;
  const bool wants_page_;
  report::TextSink sink_;
  report::ProgressBar bar_;
  report::JsonLog json_;
  std::unique_ptr<report::ProgressEndpoint> endpoint_;
  std::unique_ptr<History> history_;
  std::unique_ptr<report::TensorBoardLog> curves_;
  std::unique_ptr<report::Observers> observers_;
};

}  // namespace coxswain
