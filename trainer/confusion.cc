#include "trainer/confusion.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "trainer/contract/error.h"
#include "trainer/contract/printable.h"

namespace coxswain {

namespace {

constexpr std::int64_t kMostInMatrix = 4096;  // 128 MiB
constexpr std::size_t kMostInLine = 20;
constexpr std::size_t kMostInTable = 24;  // of a class name

using Json = nlohmann::ordered_json;

}  // namespace

Confusion::Confusion(std::int64_t classes, std::vector<std::string> names)
    : classes_(static_cast<std::size_t>(classes)), names_(std::move(names)) {
  if (classes > kMostInMatrix)
    throw Error(ExitCode::kBadInput,
                fmt::format("[eval] --per-class takes at most {} classes, here are {}",
                            kMostInMatrix, classes));
  counts_.resize(classes_ * classes_);
}

void Confusion::add(std::int32_t label, std::size_t taken_for) {
  ++counts_[static_cast<std::size_t>(label) * classes_ + taken_for];
}

std::int64_t Confusion::samples(std::size_t label) const {
  std::int64_t all = 0;
  for (std::size_t i = 0; i < classes_; ++i) all += count(label, i);
  return all;
}

std::string Confusion::name(std::size_t label) const {
  return label < names_.size() ? printable(names_[label], kMostInTable) : fmt::format("{}", label);
}

std::string Confusion::to_text() const {
  std::string text =
      fmt::format("{:<24} {:>9} {:>10}  mostly mistaken for\n", "class", "images", "accuracy");
  for (std::size_t label = 0; label < classes_; ++label) {
    const std::int64_t all = samples(label);
    std::optional<std::size_t> mistaken;
    for (std::size_t i = 0; i < classes_; ++i)
      if (i != label && count(label, i) > (mistaken ? count(label, *mistaken) : 0)) mistaken = i;
    const std::string accuracy =
        all == 0 ? "-"
                 : fmt::format("{:.2f} %", 100 * static_cast<double>(count(label, label)) /
                                               static_cast<double>(all));
    text += fmt::format(
        "{:<24} {:>9} {:>10}  {}\n", name(label), all, accuracy,
        mistaken ? fmt::format("{} ({})", name(*mistaken), count(label, *mistaken)) : "-");
  }
  if (classes_ > kMostInLine) return text;
  text += "\nconfusion: a row for each class, a column for what it was taken for\n";
  for (std::size_t label = 0; label < classes_; ++label) {
    text += fmt::format("{:<24}", name(label));
    for (std::size_t i = 0; i < classes_; ++i) text += fmt::format(" {:>6}", count(label, i));
    text += '\n';
  }
  return text;
}

std::string Confusion::to_json() const {
  Json classes = Json::array();
  Json matrix = Json::array();
  for (std::size_t label = 0; label < classes_; ++label) {
    const std::int64_t all = samples(label);
    Json entry = {{"class", label}};
    if (label < names_.size()) entry["name"] = names_[label];
    entry["samples"] = all;
    entry["accuracy"] =
        all == 0 ? Json()
                 : Json(static_cast<double>(count(label, label)) / static_cast<double>(all));
    classes.push_back(std::move(entry));
    Json row = Json::array();
    for (std::size_t i = 0; i < classes_; ++i) row.push_back(count(label, i));
    matrix.push_back(std::move(row));
  }
  const auto dump = [](const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  return fmt::format("\"perClass\":{},\"confusion\":{}", dump(classes), dump(matrix));
}

}  // namespace coxswain
