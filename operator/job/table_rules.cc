#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "operator/job/json_fields.h"
#include "operator/job/pod_tables.h"
#include "operator/job/validation.h"
#include "trainer/contract/config/text.h"

namespace coxswain::job {

namespace {

// The member at a path of keys.
const Json* member_at(const Json& object, std::string_view path) {
  const Json* value = &object;
  while (value && !path.empty()) {
    const std::size_t dot = std::min(path.find('.'), path.size());
    const auto found = value->is_object() ? value->find(path.substr(0, dot)) : value->end();
    value = value->is_object() && found != value->end() && !found->is_null() ? &*found : nullptr;
    path.remove_prefix(std::min(dot + 1, path.size()));
  }
  return value;
}

bool is_given(const Json* value) {
  if (!value) return false;
  if (value->is_string()) return !value->get_ref<const std::string&>().empty();
  return !value->is_array() || !value->empty();
}

bool reads_as(const Json& value, std::string_view word) {
  return value.is_string() ? value.get_ref<const std::string&>() == word : value.dump() == word;
}

bool applies(std::string_view condition, const Json& object, const Json& spec) {
  const std::size_t sign = condition.find('=');
  const bool absent = condition.starts_with('!');
  const bool differs = sign != std::string_view::npos && sign > 0 && condition[sign - 1] == '!';
  std::string_view path =
      condition.substr(0, sign == std::string_view::npos ? sign : sign - differs);
  if (absent) path.remove_prefix(1);
  const bool of_spec = path.starts_with('/');
  const Json* value = member_at(of_spec ? spec : object, of_spec ? path.substr(1) : path);
  if (sign == std::string_view::npos) return is_given(value) != absent;
  const auto fits = [&](const Json& one) {
    return reads_as(one, condition.substr(sign + 1)) != differs;
  };
  if (!value) return differs;
  return value->is_array() ? std::ranges::any_of(*value, fits) : fits(*value);
}

// What the tables say of one value.
class TableCheck {
 public:
  TableCheck(std::string_view place, const std::string& path, std::vector<Problem>& problems)
      : place_(place), path_(path), problems_(problems) {}

  void check_word(const std::string& text) {
    for (const auto& [at, words] : word_rules())
      if (place_.ends_with(at) && std::ranges::find(words, text) == words.end())
        refuse("", fmt::format("must be one of {}; got {}", listed(words), contract::quote(text)));
  }

  void check_form(const std::string& text) {
    if (text.empty() && !place_.ends_with(']')) return;
    for (const auto& [at, fits, form] : form_rules())
      if (place_.ends_with(at) && !fits(text))
        refuse("", fmt::format("must be {}; got {}", form, contract::quote(text)));
  }

  void check_number(std::int64_t number) {
    const NumberRule* rule = nullptr;
    for (const NumberRule& row : number_rules())
      if (place_.ends_with(row.at)) rule = &row;
    if (rule && (number < rule->range.min || number > rule->range.max))
      refuse("", fmt::format("must be {} to {}, got {}", rule->range.min, rule->range.max, number));
  }

  void check_list(const Json& list) {
    for (const auto& [at, most] : length_rules())
      if (place_.ends_with(at) && list.size() > most)
        refuse("", fmt::format("at most {} entries, got {}", most, list.size()));
    for (const auto& [at, field] : unique_rules()) {
      if (!place_.ends_with(at)) continue;
      std::set<std::string> seen;
      for (std::size_t i = 0; i < list.size(); ++i)
        if (const std::string text = text_at(list[i], field);
            !text.empty() && !seen.insert(text).second)
          refuse(fmt::format("[{}].{}", i, field), "a second one of " + contract::quote(text));
    }
  }

  void check_object(const Json& object, const Json& spec) {
    for (const auto& [at, fields] : required_rules())
      for (const std::string_view field : fields)
        if (place_.ends_with(at) && !is_given(member_at(object, field)))
          refuse(fmt::format(".{}", field), "required");
    for (const auto& [at, least, most, except, message] : choice_rules()) {
      int count = 0;
      for (const auto& [key, value] : object.items())
        count += !value.is_null() && std::ranges::find(except, key) == except.end();
      if (place_.ends_with(at) && (count < least || count > most)) refuse("", std::string(message));
    }
    for (const auto& [at, conditions, message] : conflict_rules())
      if (place_.ends_with(at) && std::ranges::all_of(conditions, [&](std::string_view condition) {
            return applies(condition, object, spec);
          }))
        refuse("." + blamed(conditions.front()), std::string(message));
  }

 private:
  void refuse(const std::string& below, std::string message) {
    problems_.push_back({path_ + below, 0, std::move(message)});
  }

  static std::string listed(const Texts& words) {
    Texts shown = words;
    std::erase(shown, "");
    return fmt::format("{}", fmt::join(shown, ", "));
  }

  static std::string blamed(std::string_view condition) {
    if (condition.starts_with('!')) condition.remove_prefix(1);
    return std::string(condition.substr(0, condition.find_first_of("!=")));
  }

  std::string_view place_;
  const std::string& path_;
  std::vector<Problem>& problems_;
};

}  // namespace

void check_by_tables(const Json& value, std::string_view place, const std::string& path,
                     const Json& spec, std::vector<Problem>& problems) {
  TableCheck check(place, path, problems);
  if (value.is_string()) check.check_word(value.get<std::string>());
  if (value.is_string() || value.is_number())
    check.check_form(value.is_string() ? value.get<std::string>() : value.dump());
  if (value.is_number_integer()) check.check_number(value.get<std::int64_t>());
  if (value.is_array()) check.check_list(value);
  if (value.is_object()) check.check_object(value, spec);
}

}  // namespace coxswain::job
