#include "trainer/report/run_history.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/contract/worker/json_fields.h"

namespace coxswain::report {

namespace {

using nlohmann::json;

constexpr std::size_t kMostLineBytes = 1 << 20;

std::string text_of(const json& line, const char* name) {
  const auto found = line.find(name);
  return found != line.end() && found->is_string() ? found->get<std::string>() : "";
}

std::optional<double> number_of(const json& line, const char* name) {
  const auto found = line.find(name);
  return found != line.end() && found->is_number() ? std::optional(found->get<double>())
                                                   : std::nullopt;
}

std::int64_t integer_of(const json& line, const char* name) {
  const auto found = line.find(name);
  return found != line.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}

std::vector<std::string> texts_of(const json& line, const char* name) {
  std::vector<std::string> texts;
  const auto found = line.find(name);
  if (found == line.end() || !found->is_array()) return texts;
  for (const json& text : *found)
    if (text.is_string()) texts.push_back(text.get<std::string>());
  return texts;
}

// Takes one line after the other.
class Reader {
 public:
  void take(std::string_view text) {
    const json line = text.size() > kMostLineBytes
                          ? json(json::value_t::discarded)
                          : json::parse(text.begin(), text.end(), nullptr, false);
    if (!line.is_object() || !take(line, text_of(line, "event"))) ++history.unreadable_lines;
  }

  RunHistory history;

 private:
  bool take(const json& line, const std::string& event) {
    if (event == "attempt") return begin(line);
    if (history.attempts.empty()) return false;
    Attempt& attempt = history.attempts.back();
    if (event == "started") {
      start(line, attempt);
    } else if (event == "step") {
      add_step(line, attempt);
    } else if (event == "epoch") {
      add_epoch(line, attempt);
    } else if (event == "warning") {
      attempt.warnings.push_back(text_of(line, "message"));
    } else if (event == "finished") {
      attempt.end = text_of(line, "result");
      attempt.last_step = std::max(attempt.last_step, integer_of(line, "steps"));
    } else if (event == "left") {
      attempt.end = fmt::format("{} ({}): {}", text_of(line, "reason"), integer_of(line, "code"),
                                text_of(line, "message"));
    } else {
      return event == "checkpoint";
    }
    return true;
  }

  bool begin(const json& line) {
    Attempt attempt;
    attempt.number = integer_of(line, "attempt");
    attempt.time = text_of(line, "time");
    attempt.configuration = text_of(line, "configuration");
    if (const std::string cause = text_of(line, "cause"); !cause.empty())
      ended_before(attempt.number).cause = cause;
    history.attempts.push_back(std::move(attempt));
    return true;
  }

  // The attempt that ended before `number` began: the same one, where a pod was made anew, or one
  // that ended before it had a line here.
  Attempt& ended_before(std::int64_t number) {
    const bool is_there = !history.attempts.empty() && !ended_well(history.attempts.back()) &&
                          history.attempts.back().number >= number - 1;
    if (!is_there) {
      Attempt unheard;
      unheard.number = number - 1;
      if (!history.attempts.empty())
        unheard.first_step = unheard.last_step = history.attempts.back().last_step;
      history.attempts.push_back(std::move(unheard));
    }
    return history.attempts.back();
  }

  void start(const json& line, Attempt& attempt) {
    attempt.model = text_of(line, "model");
    attempt.parameters = integer_of(line, "parameters");
    attempt.world_size = static_cast<int>(integer_of(line, "worldSize"));
    attempt.threads = static_cast<int>(integer_of(line, "threads"));
    attempt.first_step = attempt.last_step = integer_of(line, "firstStep");
    attempt.fingerprint = text_of(line, "fingerprint");
    attempt.notes = texts_of(line, "notes");
    const auto is_beyond = [&](const auto& point) { return point.step > attempt.first_step; };
    std::erase_if(history.steps, is_beyond);
    std::erase_if(history.epochs, is_beyond);
  }

  void add_step(const json& line, Attempt& attempt) {
    const std::int64_t step = integer_of(line, "step");
    attempt.last_step = std::max(attempt.last_step, step);
    history.steps.push_back({step, number_of(line, "loss"), number_of(line, "accuracy"),
                             number_of(line, "lr"), number_of(line, "samplesPerSecond")});
  }

  void add_epoch(const json& line, Attempt& attempt) {
    EpochPoint point;
    point.epoch = integer_of(line, "epoch");
    point.step = integer_of(line, "step");
    point.training_loss = number_of(line, "trainingLoss");
    point.training_accuracy = number_of(line, "trainingAccuracy");
    point.loss = number_of(line, "loss");
    point.accuracy = number_of(line, "accuracy");
    point.top5 = number_of(line, "top5");
    point.lr = number_of(line, "lr");
    point.seconds = number_of(line, "seconds");
    point.samples_per_second = number_of(line, "samplesPerSecond");
    attempt.last_step = std::max(attempt.last_step, point.step);
    // An attempt that goes on from an epoch's end evaluates there again, without its steps.
    if (history.epochs.empty() || history.epochs.back().step != point.step) {
      history.epochs.push_back(point);
    } else if (!history.epochs.back().accuracy) {
      history.epochs.back().loss = point.loss;
      history.epochs.back().accuracy = point.accuracy;
      history.epochs.back().top5 = point.top5;
    }
  }
};

}  // namespace

bool ended_well(const Attempt& attempt) {
  return attempt.end == "Succeeded" || attempt.end == "Saved";
}

std::string attempt_line(std::int64_t number, const std::string& time,
                         const std::string& configuration, const std::string& cause) {
  nlohmann::ordered_json line;
  line["event"] = "attempt";
  line["attempt"] = number;
  line["time"] = time;
  line["configuration"] = configuration;
  if (!cause.empty()) line["cause"] = cause;
  return contract::dump(line) + '\n';
}

std::string left_line(int code, const std::string& reason, const std::string& message) {
  nlohmann::ordered_json line;
  line["event"] = "left";
  line["code"] = code;
  line["reason"] = reason;
  line["message"] = message;
  return contract::dump(line) + '\n';
}

RunHistory parse_history(std::string_view text) {
  Reader reader;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (end > 0) reader.take(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return std::move(reader.history);
}

}  // namespace coxswain::report
