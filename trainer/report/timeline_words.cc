#include "trainer/report/timeline_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "trainer/contract/printable.h"

namespace coxswain::report {

namespace {

using nlohmann::json;

constexpr double kNoticeableWork = 0.05;  // of a rank's work, beyond the others'
constexpr std::size_t kMostLayers = 5;
constexpr std::size_t kMostNameCharacters = 80;

// What one rank does in a step, in the mean: seconds.
struct RankMeans {
  double step = 0, load = 0, forward = 0, backward = 0, wait = 0, update = 0, finish = 0, save = 0;
  double decode = 0;  // on other threads

  double work() const { return load + forward + backward + update; }
  double* of(std::string_view part) {
    if (part == "step") return &step;
    if (part == "load") return &load;
    if (part == "forward") return &forward;
    if (part == "backward") return &backward;
    if (part == "wait") return &wait;
    if (part == "update") return &update;
    if (part == "finish") return &finish;
    if (part == "save") return &save;
    return part == "decode" ? &decode : nullptr;
  }
};

struct Digest {
  std::int64_t first_step = std::numeric_limits<std::int64_t>::max();
  std::int64_t last_step = 0;
  double steps = 0;
  std::map<int, RankMeans> ranks;
  std::map<std::string, double> layers;  // "conv1, backward": seconds a step, mean of the ranks
};

Digest digest(const std::vector<TimelineSpan>& spans) {
  Digest all;
  std::set<std::int64_t> steps;
  for (const TimelineSpan& span : spans) {
    if (double* const sum = all.ranks[span.rank].of(span.part)) *sum += span.seconds;
    if (span.part == "step") steps.insert(span.step);
    if (span.part == "forward" || span.part == "backward")
      all.layers[span.name + ", " + span.part] += span.seconds;
  }
  if (steps.empty()) return {};
  all.first_step = *steps.begin();
  all.last_step = *steps.rbegin();
  all.steps = static_cast<double>(steps.size());
  for (auto& [rank, means] : all.ranks)
    for (const char* part :
         {"step", "load", "forward", "backward", "wait", "update", "finish", "save", "decode"})
      *means.of(part) /= all.steps;
  for (auto& [layer, seconds] : all.layers)
    seconds /= all.steps * static_cast<double>(all.ranks.size());
  return all;
}

std::string time_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.3g} ms", seconds * 1e3);
  return fmt::format("{:.3g} s", seconds);
}

double mean_of(const Digest& all, double RankMeans::* member) {
  double sum = 0;
  for (const auto& [rank, means] : all.ranks) sum += means.*member;
  return sum / static_cast<double>(all.ranks.size());
}

std::string parts_text(const Digest& all) {
  const double step = mean_of(all, &RankMeans::step);
  const auto share = [&](double seconds) { return fmt::format("{:.0f} %", seconds / step * 100); };
  const double inner = mean_of(all, &RankMeans::wait) + mean_of(all, &RankMeans::update);
  const double summing = std::max(0.0, mean_of(all, &RankMeans::finish) - inner);
  double rest = step - summing;
  std::string text = "of it: ";
  const std::pair<const char*, double RankMeans::*> parts[] = {
      {"waiting for data", &RankMeans::load}, {"forward", &RankMeans::forward},
      {"backward", &RankMeans::backward},     {"waiting for sums", &RankMeans::wait},
      {"update", &RankMeans::update},         {"save", &RankMeans::save}};
  for (const auto& [name, member] : parts) {
    const double seconds = mean_of(all, member);
    rest -= seconds;
    if (seconds > 0) text += fmt::format("{} {}, ", name, share(seconds));
  }
  if (summing / step >= 0.005) text += fmt::format("around sums {}, ", share(summing));
  text += fmt::format("the rest {}\n", share(std::max(0.0, rest)));
  if (const double decode = mean_of(all, &RankMeans::decode); decode > 0)
    text += fmt::format("reading and decoding of a step's images, on threads of their own: {}\n",
                        time_text(decode));
  return text;
}

std::string layers_text(const Digest& all) {
  std::vector<std::pair<double, std::string>> layers;
  for (const auto& [layer, seconds] : all.layers) layers.emplace_back(seconds, layer);
  std::ranges::sort(layers, std::greater<>());
  std::string text;
  for (std::size_t i = 0; i < std::min(layers.size(), kMostLayers); ++i)
    text +=
        fmt::format("{}{} {}", i == 0 ? "the longest layers: " : "; ",
                    printable(layers[i].second, kMostNameCharacters), time_text(layers[i].first));
  return text.empty() ? "" : text + "\n";
}

// The rank whose own work takes longest, if that is noticeable beside the others' mean.
std::string late_text(const Digest& all) {
  if (all.ranks.size() < 2) return "";
  const auto late = std::ranges::max_element(all.ranks, {},
                                             [](const auto& entry) { return entry.second.work(); });
  const auto others = static_cast<double>(all.ranks.size() - 1);
  const double work = late->second.work();
  const double mean = (mean_of(all, &RankMeans::load) + mean_of(all, &RankMeans::forward) +
                       mean_of(all, &RankMeans::backward) + mean_of(all, &RankMeans::update)) *
                          (others + 1) / others -
                      work / others;
  if (work < mean * (1 + kNoticeableWork))
    return "no rank is late: their work differs by less than 5 %\n";
  const RankMeans& of = late->second;
  const char* cause = of.load > (work - mean) / 2 ? "it waits for data" : "it computes longer";
  return fmt::format("rank {} is late: its own work takes {} a step, that of the others {}; {}\n",
                     late->first, time_text(work), time_text(mean), cause);
}

std::optional<TimelineSpan> span_of(const json& event) {
  if (!event.is_object() || event.value("ph", json()) != "X") return std::nullopt;
  const auto number = [&](const char* name) {
    const auto found = event.find(name);
    return found != event.end() && found->is_number() ? found->get<double>() : 0.0;
  };
  const auto text = [&](const char* name) {
    const auto found = event.find(name);
    return found != event.end() && found->is_string() ? found->get<std::string>() : "";
  };
  TimelineSpan span{text("name"), text("cat"), number("ts") / 1e6, number("dur") / 1e6};
  const auto place = [](double value) { return static_cast<int>(std::clamp(value, 0.0, 1e6)); };
  span.rank = place(number("pid"));
  span.thread = place(number("tid"));
  const auto args = event.find("args");
  if (args != event.end() && args->is_object() && args->contains("step") &&
      args->at("step").is_number_integer())
    span.step = args->at("step").get<std::int64_t>();
  return span;
}

}  // namespace

std::optional<std::vector<TimelineSpan>> parse_timeline(std::string_view text) {
  const json file = json::parse(text.begin(), text.end(), nullptr, false);
  if (!file.is_object()) return std::nullopt;
  const auto events = file.find("traceEvents");
  if (events == file.end() || !events->is_array()) return std::nullopt;
  std::vector<TimelineSpan> spans;
  for (const json& event : *events)
    if (auto span = span_of(event)) spans.push_back(std::move(*span));
  return spans;
}

std::string describe_timeline(const std::vector<TimelineSpan>& spans) {
  const Digest all = digest(spans);
  if (all.ranks.empty() || mean_of(all, &RankMeans::step) <= 0)
    return "no step is in this timeline\n";
  const auto counted = [](double count, const char* word) {
    return fmt::format("{:.0f} {}{}", count, word, count == 1 ? "" : "s");
  };
  return fmt::format("{}, {} to {}, of {}: a step takes {}\n", counted(all.steps, "step"),
                     all.first_step, all.last_step,
                     counted(static_cast<double>(all.ranks.size()), "rank"),
                     time_text(mean_of(all, &RankMeans::step))) +
         parts_text(all) + layers_text(all) + late_text(all);
}

}  // namespace coxswain::report
