#include "trainer/launch/rank_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <tuple>

#include "trainer/contract/exit_code.h"
#include "trainer/contract/worker/run_files.h"

namespace coxswain::launch {

namespace {

using contract::TerminationMessage;

constexpr std::size_t kMaxReportBytes = 4096;
constexpr int kSaved = static_cast<int>(ExitCode::kSaved);
constexpr int kPeerLost = static_cast<int>(ExitCode::kPeerLost);
constexpr int kKillSignal = 9;

// Smaller: more likely the cause.
auto causality(const RankReport& report) {
  return std::tuple(report.told, report.code == kPeerLost, report.end_ms, report.rank);
}

std::string describe(const RankReport& report) {
  if (report.signal == 0)
    return fmt::format("rank {} exited with code {}", report.rank, report.code);
  return fmt::format(
      "rank {} was killed by signal {} ({}){}", report.rank, report.signal,
      strsignal(report.signal),
      report.signal == kKillSignal ? ": by somebody, or because memory ran out" : "");
}

TerminationMessage without_message(const RankReport& report) {
  TerminationMessage message;
  if (failed(report)) {
    message.reason = report.signal == 0 ? "Error" : "Signal";
    message.message = describe(report);
  }
  return message;
}

// The progress and checkpoint of whichever rank knows them: rank 0, as a rule.
void add_progress(TerminationMessage& to, const std::vector<RankReport>& reports) {
  for (const RankReport& report : reports) {
    if (!report.message) continue;
    if (!to.progress) to.progress = report.message->progress;
    if (!to.checkpoint) to.checkpoint = report.message->checkpoint;
  }
}

TerminationMessage end_of(const RankReport& report) {
  TerminationMessage message = report.message.value_or(without_message(report));
  message.exit_code = report.code;
  message.rank = report.rank;
  return message;
}

TerminationMessage cause_elsewhere(const RankReport& first) {
  TerminationMessage message = end_of(first);
  message.exit_code = kPeerLost;
  message.reason = "PeerLost";
  message.message = fmt::format("rank {} was stopped because another rank failed", first.rank);
  return message;
}

}  // namespace

bool failed(const RankReport& report) { return report.code != 0 && report.code != kSaved; }

std::string to_json(const RankReport& report) {
  nlohmann::json json{{"rank", report.rank},
                      {"code", report.code},
                      {"signal", report.signal},
                      {"told", report.told},
                      {"endMs", report.end_ms}};
  if (report.message) json["message"] = nlohmann::json::parse(contract::to_json(*report.message));
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::optional<RankReport> parse_rank_report(std::string_view text) {
  if (text.size() > kMaxReportBytes) return std::nullopt;
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  for (const char* key : {"rank", "code", "signal", "endMs"}) {
    if (!json.contains(key) || !json[key].is_number_integer()) return std::nullopt;
  }
  if (!json.contains("told") || !json["told"].is_boolean()) return std::nullopt;
  RankReport report{.rank = json["rank"],
                    .code = json["code"],
                    .signal = json["signal"],
                    .told = json["told"],
                    .end_ms = json["endMs"],
                    .message = std::nullopt};
  if (json.contains("message")) {
    report.message = contract::parse_termination_message(json["message"].dump());
  }
  return report;
}

RankReport lost_supervisor(int rank) {
  return {.rank = rank,
          .code = 128 + kKillSignal,
          .signal = kKillSignal,
          .told = false,
          .end_ms = 0,
          .message = std::nullopt};
}

std::vector<RankReport> read_reports(const std::filesystem::path& worker_directory, int first_rank,
                                     int count) {
  std::vector<RankReport> reports;
  for (int rank = first_rank; rank < first_rank + count; ++rank) {
    const auto text =
        contract::read_small_file(contract::rank_file(worker_directory, rank), kMaxReportBytes);
    if (!text) continue;
    if (auto report = parse_rank_report(*text)) reports.push_back(std::move(*report));
  }
  return reports;
}

std::vector<RankReport> reports_of(const contract::AnnouncedRanks& ranks) {
  std::vector<RankReport> all;
  for (const auto& rank : ranks.ranks()) {
    if (!contract::has_ended(rank.process)) continue;
    const auto found = read_reports(rank.worker_directory, rank.rank, 1);
    all.push_back(found.empty() ? lost_supervisor(rank.rank) : found.front());
  }
  std::ranges::sort(all, {}, &RankReport::rank);
  return all;
}

TerminationMessage combine(const std::vector<RankReport>& reports) {
  std::vector<RankReport> failures;
  std::ranges::copy_if(reports, std::back_inserter(failures), failed);
  const auto saved = std::ranges::find(reports, kSaved, &RankReport::code);
  const auto first = std::ranges::min_element(failures, {}, causality);

  TerminationMessage result;
  if (first != failures.end() && !first->told) {
    result = end_of(*first);
  } else if (saved != reports.end()) {
    result = end_of(*saved);
  } else if (first != failures.end()) {
    result = cause_elsewhere(*first);
  } else if (!reports.empty()) {
    result = end_of(reports.front());
  }
  add_progress(result, reports);
  return result;
}

}  // namespace coxswain::launch
