#include "crds/generator/yaml_writer.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace coxswain::crd {

namespace {

constexpr std::size_t kColumns = 100;
constexpr std::size_t kLongWord = 16;  // several brackets in a row are parted from here on
constexpr std::size_t kDeepest = 28;  // beyond it brackets, not indentation, show the structure

// Whether YAML reads the bare word as this text, within brackets too.
bool is_plain(std::string_view text) {
  constexpr auto kOtherMeaning = std::to_array<std::string_view>(
      {"true", "false", "null", "yes", "no", "on", "off", "y", "n"});
  const auto fits = [](unsigned char c) {
    return std::isalnum(c) || c == '.' || c == '_' || c == '-' || c == '/';
  };
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return !text.empty() && std::isalpha(static_cast<unsigned char>(text.front())) &&
         std::all_of(text.begin(), text.end(), fits) &&
         std::find(kOtherMeaning.begin(), kOtherMeaning.end(), lower) == kOtherMeaning.end();
}

std::string scalar(const Json& value) {
  if (!value.is_string()) return value.dump();
  const auto& text = value.get_ref<const std::string&>();
  return is_plain(text) ? text : value.dump();
}

std::string flow(const Json& value) {
  if (!value.is_structured()) return scalar(value);
  std::string parts;
  for (const auto& [key, inner] : value.items()) {
    if (!parts.empty()) parts += ", ";
    if (value.is_object()) parts += scalar(key) + ": ";
    parts += flow(inner);
  }
  return value.is_object() ? "{" + parts + "}" : "[" + parts + "]";
}

// Folding gives the text back if its only white space is single spaces between words.
bool can_fold(const Json& value) {
  if (!value.is_string()) return false;
  const auto& text = value.get_ref<const std::string&>();
  return text.find("  ") == text.npos && text.find_first_of("\n\t") == text.npos &&
         text.find(' ') != text.npos && text.front() != ' ' && text.back() != ' ';
}

std::string folded(const std::string& text, std::size_t indent) {
  const std::size_t width = kColumns - std::min(indent, kColumns / 2);
  std::string result = ">-";
  std::size_t start = 0;
  while (start < text.size()) {
    std::size_t end = text.size();
    if (end - start > width) {
      end = text.rfind(' ', start + width);
      if (end == text.npos || end <= start) end = std::min(text.find(' ', start), text.size());
    }
    result += "\n" + std::string(indent, ' ') + text.substr(start, end - start);
    start = end + 1;
  }
  return result;
}

// Appends a word of flow style; on a new line where it would end beyond the last column.
void append(const std::string& word, std::size_t indent, std::string& out) {
  const std::size_t column = out.size() - (out.rfind('\n') + 1);
  if (column + 1 + word.size() > kColumns)
    out += "\n" + std::string(indent, ' ');
  else
    out += ' ';
  out += word;
}

// Flow style over as many lines as it takes. `head` and `tail` are what its first and last word
// can't be parted from.
void write_flow(const std::string& head, const Json& value, const std::string& tail,
                std::size_t indent, std::string& out) {
  if (!value.is_structured() || value.empty()) {
    append(head + flow(value) + tail, indent, out);
    return;
  }
  const char* brackets = value.is_object() ? "{}" : "[]";
  std::string opening = head + brackets[0];
  std::size_t left = value.size();
  for (const auto& [key, inner] : value.items()) {
    const std::string end = --left == 0 ? brackets[1] + tail : ",";
    if (opening.size() > kLongWord) {
      append(opening, indent, out);
      opening.clear();
    }
    write_flow(opening + (value.is_object() ? scalar(key) + ": " : ""), inner, end, indent, out);
    opening.clear();
  }
}

void write(const Json& value, std::size_t indent, std::string& out);

// What stands behind `key:`, which ends at `column`.
void write_entry(const Json& value, std::size_t indent, std::size_t column, std::string& out) {
  const std::string line = flow(value);
  if (column + 1 + line.size() <= kColumns) {
    out += " " + line + "\n";
  } else if (can_fold(value)) {
    out += " " + folded(value.get<std::string>(), indent + 2) + "\n";
  } else if (value.is_structured()) {
    if (indent + 2 > kDeepest) return write_flow("", value, "\n", indent + 2, out);
    out += "\n";
    write(value, indent + 2, out);
  } else {
    out += " " + line + "\n";
  }
}

void write(const Json& value, std::size_t indent, std::string& out) {
  for (const auto& [key, inner] : value.items()) {
    const std::string head =
        std::string(indent, ' ') + (value.is_object() ? scalar(key) + ":" : "-");
    out += head;
    write_entry(inner, indent, head.size(), out);
  }
}

}  // namespace

std::string to_yaml(const Json& value) {
  std::string out;
  write(value, 0, out);
  return out;
}

}  // namespace coxswain::crd
