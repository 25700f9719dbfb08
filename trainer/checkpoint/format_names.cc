#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "trainer/checkpoint/format.h"

namespace coxswain::checkpoint {

namespace {

constexpr std::string_view kEpochPrefix = ".epoch-";
constexpr std::string_view kBestPrefix = ".best-";

// Removes `prefix` and at most 18 digits after it; nothing when they aren't there.
std::optional<std::int64_t> take_number(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return std::nullopt;
  const std::string_view rest = text.substr(prefix.size());
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  const auto digits = static_cast<std::size_t>(end - rest.data());
  if (error != std::errc() || digits > 18 || number < 0) return std::nullopt;
  text = rest.substr(digits);
  return number;
}

}  // namespace

std::string to_text(const CheckpointName& name) {
  const std::string text = fmt::format("step-{:08}.g{}", name.step, name.generation);
  return name.revision == 1 ? text : fmt::format("{}.r{}", text, name.revision);
}

std::optional<CheckpointName> parse_checkpoint_name(std::string_view text) {
  std::string_view rest = text;
  const auto step = take_number(rest, "step-");
  const auto generation = step ? take_number(rest, ".g") : std::nullopt;
  if (!generation) return std::nullopt;
  const auto revision = rest.empty() ? std::optional<std::int64_t>(1) : take_number(rest, ".r");
  if (!revision) return std::nullopt;
  const CheckpointName name{.generation = *generation, .step = *step, .revision = *revision};
  return to_text(name) == text ? std::optional(name) : std::nullopt;
}

std::optional<std::int64_t> parse_numbered(std::string_view text, std::string_view prefix) {
  const auto number = take_number(text, prefix);
  return text.empty() ? number : std::nullopt;
}

std::string to_text(const KeepMark& mark) {
  const std::string name = to_text(mark.checkpoint);
  return mark.epoch == 0 ? fmt::format("{}{}", kBestPrefix, name)
                         : fmt::format("{}{}-{}", kEpochPrefix, mark.epoch, name);
}

std::optional<KeepMark> parse_keep_mark(std::string_view text) {
  std::string_view rest = text;
  KeepMark mark;
  if (const auto epoch = take_number(rest, kEpochPrefix)) {
    if (!rest.starts_with('-')) return std::nullopt;
    mark.epoch = *epoch;
    rest.remove_prefix(1);
  } else if (rest.starts_with(kBestPrefix)) {
    rest.remove_prefix(kBestPrefix.size());
  }
  const auto name = parse_checkpoint_name(rest);
  if (!name || rest.size() == text.size()) return std::nullopt;
  mark.checkpoint = *name;
  return to_text(mark) == text ? std::optional(mark) : std::nullopt;
}

std::string to_text(const RunMark& mark) {
  const std::string text = fmt::format("{}{}", kRunPrefix, mark.generation);
  return mark.job_uid.empty() ? text : fmt::format("{}-{}", text, mark.job_uid);
}

std::optional<RunMark> mark_of_run(const std::vector<std::string>& names, std::int64_t generation) {
  std::optional<RunMark> last;
  for (const std::string& name : names) {
    std::string_view rest = name;
    const auto began = take_number(rest, kRunPrefix);
    if (!began || *began > generation || (!rest.empty() && rest.front() != '-')) continue;
    if (last && last->generation > *began) continue;
    last = {.generation = *began, .job_uid = std::string(rest.substr(rest.empty() ? 0 : 1))};
  }
  return last;
}

bool is_own_name(std::string_view name) {
  return name == kLatestFile || name == kBestFile || parse_checkpoint_name(name) ||
         parse_keep_mark(name) || parse_numbered(name, kClaimPrefix) ||
         mark_of_run({std::string(name)}, std::numeric_limits<std::int64_t>::max()) ||
         name.starts_with(kTemporaryPrefix);
}

}  // namespace coxswain::checkpoint
