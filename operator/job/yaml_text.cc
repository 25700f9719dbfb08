#include "operator/job/yaml_text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace coxswain::job {

namespace {

constexpr auto kWords =
    std::to_array<std::string_view>({"true", "false", "yes", "no", "on", "off", "null", "y", "n"});

// Words that no reader takes for a number, a date or a flag, or for anything but a word.
bool is_plain(const std::string& text) {
  const auto letter = [](unsigned char c) { return std::isalpha(c) || c == '/' || c == '_'; };
  const auto fits = [](unsigned char c) {
    return std::isalnum(c) ||
           std::string_view("/_.-:").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (text.empty() || !letter(static_cast<unsigned char>(text.front())) || text.back() == ':')
    return false;
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::all_of(text.begin(), text.end(), fits) &&
         std::find(kWords.begin(), kWords.end(), lower) == kWords.end();
}

// Lines that a literal block keeps as they are.
bool is_block(const std::string& text) {
  const auto fits = [](unsigned char c) { return c == '\n' || c >= 0x20; };
  return text.find('\n') < text.size() - 1 && text.front() != ' ' && text.front() != '\n' &&
         !text.ends_with("\n\n") && std::all_of(text.begin(), text.end(), fits);
}

std::string quoted(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string word(const std::string& text) { return is_plain(text) ? text : quoted(text); }

std::string block(const std::string& text, std::size_t indent) {
  std::string result = text.back() == '\n' ? "|\n" : "|-\n";
  std::size_t start = 0;
  while (start < text.size()) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    if (end > start) result.append(indent, ' ').append(text, start, end - start);
    result += '\n';
    start = end + 1;
  }
  return result;
}

void append(const Json& value, std::size_t indent, std::string& out);

// What follows "key:" or "-".
void append_value(const Json& value, std::size_t indent, std::string& out) {
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    out += ' ' + (is_block(text) ? block(text, indent + 2) : word(text) + '\n');
  } else if (!value.is_structured() || value.empty()) {
    out += ' ' + value.dump() + '\n';
  } else {
    out += '\n';
    append(value, value.is_array() ? indent : indent + 2, out);
  }
}

void append(const Json& value, std::size_t indent, std::string& out) {
  if (value.is_array()) {
    for (const Json& element : value) {
      std::string text;
      const bool nested = element.is_structured() && !element.empty();
      if (nested) append(element, indent + 2, text);
      // The first line stands beside the dash.
      if (nested) text.replace(0, indent + 2, " ");
      if (!nested) append_value(element, indent, text);
      out.append(indent, ' ').append("-").append(text);
    }
  } else if (value.is_object()) {
    for (const auto& [key, member] : value.items()) {
      out.append(indent, ' ').append(word(key)).append(":");
      append_value(member, indent, out);
    }
  }
}

}  // namespace

std::string to_yaml(const Json& value) {
  std::string text;
  if (value.is_structured() && !value.empty()) {
    append(value, 0, text);
    return text;
  }
  append_value(value, 0, text);
  return text.substr(1);
}

}  // namespace coxswain::job
