#include "operator/convert/draft.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "operator/job/job_reader.h"
#include "trainer/contract/printable.h"

namespace coxswain::convert {

namespace {

constexpr std::size_t kMostCharacters = 400;
constexpr std::size_t kLongestName = 51;

// "a.b.c" -> {"a", "b.c"}
std::pair<std::string, std::string_view> first_key(std::string_view path) {
  const std::size_t dot = path.find('.');
  if (dot == std::string_view::npos) return {std::string(path), {}};
  return {std::string(path.substr(0, dot)), path.substr(dot + 1)};
}

const char* introduction(Outcome outcome) {
  switch (outcome) {
    case Outcome::kBecame:
      return "";
    case Outcome::kNotNeeded:
      return "not needed: ";
    case Outcome::kMind:
      return "mind: ";
    case Outcome::kNoPlace:
      return "no place: ";
  }
  return "";
}

}  // namespace

std::string to_text(const Note& note) {
  return fmt::format("{}: {}{}", printable(note.what, kMostCharacters), introduction(note.outcome),
                     printable(note.answer, kMostCharacters));
}

void Draft::put(std::string_view path, Json value) {
  Json* place = &spec_;
  while (true) {
    const auto [key, rest] = first_key(path);
    if (!place->is_object()) *place = Json::object();
    place = &(*place)[key];
    if (rest.empty()) break;
    path = rest;
  }
  *place = std::move(value);
}

void Draft::remove(std::string_view path) {
  Json* place = &spec_;
  while (place->is_object()) {
    const auto [key, rest] = first_key(path);
    if (rest.empty()) {
      place->erase(key);
      return;
    }
    if (!place->contains(key)) return;
    place = &(*place)[key];
    path = rest;
  }
}

const Json* Draft::find(std::string_view path) const {
  const Json* place = &spec_;
  while (true) {
    const auto [key, rest] = first_key(path);
    if (!place->is_object() || !place->contains(key)) return nullptr;
    place = &place->at(key);
    if (rest.empty()) return place;
    path = rest;
  }
}

void Draft::add_to(std::string_view list, Json value) {
  const Json* there = find(list);
  Json values = there && there->is_array() ? *there : Json::array();
  values.push_back(std::move(value));
  put(list, std::move(values));
}

void Draft::note(Outcome outcome, std::string what, std::string answer) {
  notes_.push_back({outcome, std::move(what), std::move(answer)});
}

void Draft::no_place(std::string what, std::string why) {
  note(Outcome::kNoPlace, std::move(what), std::move(why));
}

std::string job_name(std::string_view text) {
  text = text.substr(text.find_last_of('/') + 1);
  text = text.substr(0, text.find('.'));
  std::string name;
  for (const unsigned char c : text) {
    const bool fits = c < 0x80 && std::isalnum(c);
    if (fits) name += static_cast<char>(std::tolower(c));
    if (!fits && !name.empty() && name.back() != '-') name += '-';
  }
  if (name.empty() || !std::isalpha(static_cast<unsigned char>(name.front()))) name = "job-" + name;
  name.resize(std::min(name.size(), kLongestName));
  while (name.ends_with('-')) name.pop_back();
  return name;
}

std::optional<int> whole_number(std::string_view text, int min) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < min) return std::nullopt;
  return value;
}

job::TrainingJob to_job(const Draft& draft) {
  Json metadata = {{"name", draft.name}};
  if (!draft.name_space.empty()) metadata["namespace"] = draft.name_space;
  return job::read_job(Json{{"apiVersion", job::kApiVersion},
                            {"kind", job::kKind},
                            {"metadata", metadata},
                            {"spec", draft.spec()}});
}

}  // namespace coxswain::convert
