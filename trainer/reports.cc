#include "trainer/reports.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "trainer/communicators.h"
#include "trainer/contract/config/config_reader.h"
#include "trainer/contract/rfc3339.h"
#include "trainer/contract/worker/run_files.h"
#include "trainer/report_files.h"
#include "trainer/run_files.h"

namespace coxswain {

namespace {

// A point in fifty milliseconds at first; ever fewer, some hundreds in the first minute and as many
// until the second hour.
constexpr std::chrono::milliseconds kStepInterval{50};
constexpr double kStepShare = 1.0 / 200;

// Under mpirun every output looks like a terminal: the job says what it is.
std::optional<int> terminal_columns(const std::optional<contract::WorkerEnv>& env) {
  if (env.has_value()) return env->terminal_columns;
  if (under_mpirun()) return 0;
  return std::nullopt;
}

report::JsonLogOptions json_options(const std::optional<contract::WorkerEnv>& env) {
  report::JsonLogOptions options;
  options.last_line = !env.has_value();
  return options;
}

void warn(const std::string& text) { fmt::print(stderr, "coxswain-trainer: {}\n", text); }

void require_directory(const std::filesystem::path& directory, const char* key) {
  if (!directory.empty()) return;
  throw Error(ExitCode::kBadInput,
              fmt::format("[config] {} lies beside the checkpoints, and none are written: give "
                          "checkpoint.path, in a job volumes.checkpoints",
                          key));
}

// `below`: a place in it, of a file or directory that the user named.
void require_place(const std::filesystem::path& directory, const std::filesystem::path& below,
                   const char* key) {
  require_directory(directory, key);
  const std::string first = below.lexically_normal().begin()->string();
  if (is_name_of_a_run(first))
    throw Error(ExitCode::kBadInput,
                fmt::format("[config] {}: \"{}\" is a name that a run gives its own files: give "
                            "another",
                            key, first));
}

// Before the first step, not after the last one of the timeline.
void require_writable(const std::filesystem::path& file) {
  std::error_code error;
  std::filesystem::create_directories(file.parent_path(), error);
  if (!error && std::ofstream(file, std::ios::app)) return;
  throw Error(ExitCode::kVolume, fmt::format("[report] report.timeline: {}: {}", file.string(),
                                             error ? error.message() : strerror(errno)));
}

}  // namespace

Reports::Reports(const std::string& log_format, const std::optional<contract::WorkerEnv>& env,
                 const contract::TrainerConfig& config, const std::filesystem::path& directory)
    : directory_(directory),
      wants_page_(config.report_html),
      sink_(STDOUT_FILENO, terminal_columns(env)),
      bar_(sink_, {}),
      json_(sink_, json_options(env)) {
  if (wants_page_) require_directory(directory, "report.html");
  if (!config.tensorboard.empty())
    require_place(directory, config.tensorboard, "report.tensorboard");
  if (!config.timeline.empty()) {
    require_place(directory, config.timeline, "report.timeline");
    require_writable(directory / config.timeline);
  }
  std::vector<std::reference_wrapper<train::Observer>> all;
  const bool job_wants_json = env.has_value() && env->log_format == "json";
  if (log_format == "json" || job_wants_json) {
    all.push_back(json_);
  } else {
    all.push_back(bar_);
  }
  if (env.has_value()) {
    serve(*env);
    all.push_back(*endpoint_);
  }
  if (!directory.empty()) {
    history_ = std::make_unique<History>(
        directory,
        report::attempt_line(env ? env->attempt : 0, to_rfc3339(std::chrono::system_clock::now()),
                             contract::to_yaml(config), env ? env->restart_cause : ""));
    all.push_back(history_->log());
  }
  if (!config.tensorboard.empty()) {
    report::TensorBoardOptions options;
    options.directory = directory / config.tensorboard;
    options.on_problem = warn;
    for (const report::EpochPoint& epoch : history_of(directory).epochs)
      if (epoch.accuracy) options.evaluated.insert(epoch.step);
    curves_ = std::make_unique<report::TensorBoardLog>(std::move(options));
    all.push_back(*curves_);
  }
  observers_ = std::make_unique<report::Observers>(all);
}

void Reports::serve(const contract::WorkerEnv& env) {
  report::ProgressEndpointOptions options;
  const bool is_local = !env.run_dir.empty();  // then any port will do
  options.port = static_cast<std::uint16_t>(is_local ? 0 : env.rank_port);
  endpoint_ = std::make_unique<report::ProgressEndpoint>(options);
  if (is_local)
    std::ofstream(contract::endpoint_file(contract::worker_directory(env))) << endpoint_->port();
}

contract::ProgressDocument Reports::latest() const {
  return endpoint_ ? endpoint_->latest() : contract::ProgressDocument{};
}

void Reports::leave(ExitCode code, const std::string& reason, const std::string& text) {
  if (history_) history_->append(report::left_line(static_cast<int>(code), reason, text));
  write_page();
}

void Reports::write_page() {
  if (!wants_page_) return;
  try {
    write_html_report(directory_, "");
  } catch (const std::exception& error) {  // a rank that leaves has little memory, perhaps
    warn(error.what());
  }
}

Reports::History::History(const std::filesystem::path& directory, const std::string& first_line)
    : file_(-1) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);  // the first save says what is wrong
  const std::filesystem::path path = directory / report::kHistoryFile;
  file_ = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (file_ < 0 && !error)
    warn(fmt::format("{}: {}: no history is kept", path.string(), strerror(errno)));
  sink_.emplace(file_);
  report::JsonLogOptions options;
  options.step_interval = kStepInterval;
  options.step_share = kStepShare;
  log_.emplace(*sink_, options);
  append(first_line);
}

Reports::History::~History() {
  if (file_ >= 0) close(file_);
}

// A line of its own, in whatever an attempt was cut off.
void Reports::History::append(const std::string& line) {
  const std::string whole = "\n" + line;
  if (file_ >= 0 && write(file_, whole.data(), whole.size()) < 0)
    warn(fmt::format("{}: {}", report::kHistoryFile, strerror(errno)));
}

}  // namespace coxswain
