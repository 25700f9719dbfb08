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

// The file's bytes; throws Error (65) when it is missing, unreadable, no regular file or above
// kMaxYamlBytes.
std::string read_yaml_file(const std::filesystem::path& file);

}  // namespace coxswain::contract
