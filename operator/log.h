#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace coxswain {

enum class Severity { kInfo, kWarning, kError };

using Fields = std::vector<std::pair<std::string, std::string>>;

// Resource. The operator's log on stderr: one line a change of state, a constant message and its
// fields. What others wrote into a field can't break a line: it is escaped, and cut to 1 KiB.
class Log {
 public:
  explicit Log(bool as_json);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  void line(Severity severity, std::string_view message, const Fields& fields = {}) const;

 private:
  struct Logger;
  std::unique_ptr<Logger> logger_;
};

// "message key=value key=\"a b\"", or a JSON object; without time and severity.
std::string log_text(std::string_view message, const Fields& fields);
std::string log_json(std::string_view time, std::string_view severity, std::string_view message,
                     const Fields& fields);

}  // namespace coxswain
