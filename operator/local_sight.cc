#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <fstream>
#include <map>
#include <thread>

#include "operator/inspect/log_lines.h"
#include "operator/inspect/story_file.h"
#include "operator/job_sight.h"
#include "trainer/contract/error.h"
#include "trainer/contract/worker/http_endpoint.h"
#include "trainer/contract/worker/progress.h"
#include "trainer/contract/worker/run_files.h"
#include "trainer/contract/worker/temporary_directory.h"

namespace coxswain {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostStory = 8 << 20;
constexpr std::size_t kMostLocalAnswer = 4 << 20;
constexpr std::size_t kMostName = 256;
constexpr std::size_t kPiece = 64 << 10;
constexpr std::chrono::milliseconds kLocalEvery{100};
constexpr std::chrono::milliseconds kLocalAnswersWithin{2000};

std::optional<int> whole_number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size() && value >= 0;
  return whole ? std::optional(value) : std::nullopt;
}

std::optional<inspect::Story> read_story(const fs::path& directory) {
  const auto text = contract::read_small_file(directory / inspect::kStoryFile, kMostStory);
  return text ? inspect::parse_story(*text) : std::nullopt;
}

bool is_alive(const inspect::Story& story) {
  return story.process > 0 && kill(story.process, 0) == 0;
}

std::vector<fs::path> entries_of(const fs::path& directory) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator at(directory, error); !error && at != fs::directory_iterator();
       at.increment(error))
    entries.push_back(at->path());
  std::ranges::sort(entries);
  return entries;
}

// The newest run of that name that has made its directory where runs do.
fs::path newest_run(const std::string& job) {
  fs::path newest;
  fs::file_time_type time{};
  const std::string prefix = "coxswain-" + job + "-";
  for (const fs::path& entry : entries_of(contract::temporary_root())) {
    const std::string name = entry.filename().string();
    if (!name.starts_with(prefix) || name.size() != prefix.size() + 6) continue;
    std::error_code error;
    const auto written = fs::last_write_time(entry / inspect::kStoryFile, error);
    if (error || (!newest.empty() && written <= time)) continue;
    newest = entry;
    time = written;
  }
  if (newest.empty())
    throw Error(ExitCode::kBadInput,
                fmt::format("{}: no run of this job is under way in {}; `coxswain run --run-dir "
                            "DIR` keeps what is known of one after its end, for --run-dir DIR here",
                            job, contract::temporary_root().string()));
  return newest;
}

// Of a directory "worker-3" of an attempt.
std::optional<job::WorkerId> id_of(const fs::path& directory, int attempt) {
  const std::string name = directory.filename().string();
  const std::size_t dash = name.rfind('-');
  if (dash == std::string::npos) return std::nullopt;
  const auto role = contract::role_of(name.substr(0, dash));
  const auto index = whole_number(std::string_view(name).substr(dash + 1));
  if (!role || !index) return std::nullopt;
  return job::WorkerId{*role, *index, attempt, 0};
}

// What a file has grown by.
class GrowingFile {
 public:
  explicit GrowingFile(fs::path path) : path_(std::move(path)) {}

  void read(const inspect::LineCutter::OnLine& on_line) {
    std::error_code error;
    const auto size = fs::file_size(path_, error);
    if (!error && static_cast<std::streamoff>(size) < offset_) offset_ = 0;  // begun anew
    std::ifstream file(path_, std::ios::binary);
    file.seekg(offset_);
    std::string piece(kPiece, '\0');
    while (file.read(piece.data(), static_cast<std::streamsize>(piece.size())), file.gcount() > 0) {
      offset_ += file.gcount();
      cutter_.add(std::string_view(piece).substr(0, static_cast<std::size_t>(file.gcount())),
                  on_line);
    }
  }
  void end(const inspect::LineCutter::OnLine& on_line) { cutter_.end(on_line); }

 private:
  fs::path path_;
  std::streamoff offset_ = 0;
  inspect::LineCutter cutter_;
};

class LocalSight : public JobSight {
 public:
  explicit LocalSight(const SightOptions& options)
      : name_(options.job),
        directory_(options.run_dir.empty() ? newest_run(options.job) : fs::path(options.run_dir)) {}

  std::string place() const override {
    return fmt::format("{} on this machine", directory_.string());
  }

  std::optional<inspect::Sighting> look(bool) override {
    const auto story = read_story(directory_);
    if (!story || story->job.metadata.name != name_) return std::nullopt;
    inspect::Sighting seen;
    seen.job = story->job;
    seen.events = story->events;
    seen.now = std::chrono::floor<job::Seconds>(std::chrono::system_clock::now());
    seen.place = place();
    if (!job::is_terminal(seen.job.status) && !is_alive(*story))
      seen.place += fmt::format("; process {}, which ran it, is gone", story->process);
    for (const fs::path& attempt : entries_of(directory_))
      if (const auto number = whole_number(attempt.filename().string()))
        for (const fs::path& worker : entries_of(attempt)) add(worker, *number, seen);
    enter_progress(seen);
    return seen;
  }

  void read_log(const job::Worker& worker, std::optional<int> rank, bool follow,
                std::stop_token stop, const OnLine& on_line) override {
    std::map<int, GrowingFile> files;
    const auto look = [&] {
      for (const int each : ranks_of(worker, rank)) {
        const auto file =
            files.try_emplace(each, contract::output_file(directory_of(worker.id), each)).first;
        file->second.read(
            [&](std::string_view line) { on_line(fmt::format("rank-{}", each), line); });
      }
    };
    for (bool over = !follow; !stop.stop_requested(); over = over || has_ended(worker)) {
      const bool last = over;
      look();
      if (last) break;
      std::this_thread::sleep_for(kLocalEvery);
    }
    for (auto& [each, file] : files)
      file.end(
          [&, each = each](std::string_view line) { on_line(fmt::format("rank-{}", each), line); });
  }

  std::optional<std::string> ask_rank_zero(const inspect::Sighting& seen,
                                           const std::string& path) override {
    const job::WorkerId first{job::Role::kWorker, 0, seen.job.status.attempt, 0};
    const auto port = contract::read_endpoint(directory_of(first));
    if (!port) return std::nullopt;
    return contract::http_get("127.0.0.1", *port, path, kLocalAnswersWithin, kMostLocalAnswer);
  }

 private:
  fs::path directory_of(const job::WorkerId& id) const {
    return directory_ / std::to_string(id.attempt) / job::short_name(id.role, id.index);
  }

  static void add(const fs::path& directory, int attempt, inspect::Sighting& seen) {
    const auto id = id_of(directory, attempt);
    if (!id) return;
    job::Worker worker;
    worker.id = *id;
    worker.uid = directory.string();
    const job::Status& status = seen.job.status;
    const bool over = attempt != status.attempt || job::is_terminal(status);
    worker.phase = !over ? job::WorkerPhase::kRunning
                   : status.phase == job::Phase::kSucceeded && attempt == status.attempt
                       ? job::WorkerPhase::kSucceeded
                       : job::WorkerPhase::kFailed;
    worker.ready = !over;
    worker.node =
        contract::read_small_file(contract::host_file(directory), kMostName).value_or("localhost");
    seen.workers.push_back(std::move(worker));
  }

  // Nobody asks a local run for it while it lasts.
  void enter_progress(inspect::Sighting& seen) {
    if (job::is_terminal(seen.job.status)) return;
    const auto body = ask_rank_zero(seen, "/progress");
    const auto document = body ? contract::parse_progress(*body) : std::nullopt;
    if (!document) return;
    if (document->progress) seen.job.status.progress = document->progress;
    if (document->checkpoint) seen.job.status.checkpoint = document->checkpoint;
  }

  std::vector<int> ranks_of(const job::Worker& worker, std::optional<int> rank) const {
    std::vector<int> ranks;
    for (const fs::path& entry : entries_of(directory_of(worker.id))) {
      const std::string name = entry.filename().string();
      if (!name.starts_with("rank-") || !name.ends_with(".log")) continue;
      const auto number = whole_number(std::string_view(name).substr(5, name.size() - 9));
      if (number && (!rank || number == rank)) ranks.push_back(*number);
    }
    std::ranges::sort(ranks);
    return ranks;
  }

  // All of its ranks have left their report, or nobody is there who could add to the log.
  bool has_ended(const job::Worker& worker) const {
    const auto story = read_story(directory_);
    if (!story || !is_alive(*story) || job::is_terminal(story->job.status) ||
        story->job.status.attempt != worker.id.attempt)
      return true;
    return false;
  }

  const std::string name_;
  const fs::path directory_;
};

}  // namespace

std::unique_ptr<JobSight> make_local_sight(const SightOptions& options) {
  return std::make_unique<LocalSight>(options);
}

}  // namespace coxswain
