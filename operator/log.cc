#include "operator/log.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "trainer/contract/printable.h"
#include "trainer/contract/rfc3339.h"

namespace coxswain {

namespace {

constexpr std::size_t kMostFieldBytes = 1024;

// As JSON writes it; bytes that are no UTF-8 are replaced.
std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

bool is_plain(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return c > ' ' && c < 0x7F && c != '"' && c != '=' && c != '\\';
  });
}

spdlog::level::level_enum level_of(Severity severity) {
  switch (severity) {
    case Severity::kInfo:
      return spdlog::level::info;
    case Severity::kWarning:
      return spdlog::level::warn;
    case Severity::kError:
      break;
  }
  return spdlog::level::err;
}

}  // namespace

struct Log::Logger {
  bool as_json;
  spdlog::logger logger{"coxswain", std::make_shared<spdlog::sinks::stderr_sink_mt>()};
};

Log::Log(bool as_json) : logger_(std::make_unique<Logger>()) {
  logger_->as_json = as_json;
  logger_->logger.set_pattern(as_json ? "%v" : "%Y-%m-%dT%H:%M:%S.%eZ %l %v",
                              spdlog::pattern_time_type::utc);
}

Log::~Log() = default;

void Log::line(Severity severity, std::string_view message, const Fields& fields) const {
  const auto level = level_of(severity);
  if (!logger_->as_json) return logger_->logger.log(level, log_text(message, fields));
  const std::string time = to_rfc3339(std::chrono::system_clock::now(), 3);
  const auto word = spdlog::level::to_string_view(level);
  logger_->logger.log(level, log_json(time, {word.data(), word.size()}, message, fields));
}

std::string log_text(std::string_view message, const Fields& fields) {
  std::string text(message);
  for (const auto& [key, value] : fields) {
    const std::string shown = shortened(value, kMostFieldBytes);
    text += fmt::format(" {}={}", key, is_plain(shown) ? shown : quoted(shown));
  }
  return text;
}

std::string log_json(std::string_view time, std::string_view severity, std::string_view message,
                     const Fields& fields) {
  nlohmann::ordered_json object = {{"time", time}, {"severity", severity}, {"message", message}};
  for (const auto& [key, value] : fields) object[key] = shortened(value, kMostFieldBytes);
  return object.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

}  // namespace coxswain
