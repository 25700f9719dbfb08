#pragma once

#include <yaml-cpp/yaml.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/contract/error.h"

namespace coxswain::contract {

inline constexpr std::size_t kMaxYamlBytes = std::size_t{1} << 20;
inline constexpr int kMaxYamlDepth = 64;

// YAML from outside, checked before it is used: UTF-8 without NUL, at most kMaxYamlBytes and
// kMaxYamlDepth levels, no duplicate keys, no tab as indentation, no open quote, no alias within
// its own anchor, at most 100,000 nodes a document once aliases are expanded, no plain scalar that
// YAML 1.1 and 1.2 read differently (012), no merge key, and no tag but of text, lists and
// mappings. Throws Error (65) "file:line:column: what".
std::vector<YAML::Node> load_yaml_documents(std::string_view text, const std::string& file_name);

// The same of a text that must hold one document; null for an empty one.
YAML::Node load_yaml(std::string_view text, const std::string& file_name);

// Whether YAML 1.1, which kubectl reads, takes a plain scalar for another number than YAML 1.2
// does, which we read: octal 012, 0b11, 1_000. https://yaml.org/type/int.html, float.html
bool is_doubtful_number(std::string_view text);

// What is said of one.
std::string number_in_doubt(std::string_view text);

// The file's bytes; throws Error (65) when it is missing, unreadable, no regular file or above
// kMaxYamlBytes.
std::string read_yaml_file(const std::filesystem::path& file);

}  // namespace coxswain::contract
