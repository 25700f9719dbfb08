#include "trainer/contract/config/config_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <set>

#include "trainer/contract/config/config_fields.h"
#include "trainer/contract/config/config_rules.h"
#include "trainer/contract/config/config_value.h"
#include "trainer/contract/config/nearest_key.h"
#include "trainer/contract/config/text.h"
#include "trainer/contract/config/yaml_text.h"

namespace coxswain::contract {

namespace {

constexpr std::string_view kFlagOrigin = "flag";
constexpr std::size_t kMaxFlags = 1000;
constexpr std::size_t kMaxFlagBytes = 4096;

const Field* find_field(std::string_view key) {
  const auto found = std::find_if(kFields.begin(), kFields.end(),
                                  [key](const Field& field) { return field.key == key; });
  return found == kFields.end() ? nullptr : &*found;
}

bool is_section(std::string_view key) {
  return std::any_of(kFields.begin(), kFields.end(), [key](const Field& field) {
    return field.key.starts_with(key) && field.key.substr(key.size()).starts_with('.');
  });
}

// All keys, and the sections they are in.
std::vector<std::string_view> all_names() {
  std::vector<std::string_view> names;
  for (const Field& field : kFields) {
    const std::string_view section = field.key.substr(0, field.key.find('.'));
    if (section != field.key && (names.empty() || names.back() != section)) {
      if (std::find(names.begin(), names.end(), section) == names.end()) names.push_back(section);
    }
  }
  for (const Field& field : kFields) names.push_back(field.key);
  return names;
}

// "a, b, c": the keys of a section, or of the top.
std::string names_within(std::string_view section) {
  std::vector<std::string_view> names;
  for (const std::string_view name : all_names()) {
    if (section.empty()) {
      if (name.find('.') == std::string_view::npos) names.push_back(name);
    } else if (name.starts_with(section) && name.substr(section.size()).starts_with('.')) {
      names.push_back(name.substr(section.size() + 1));
    }
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string unknown_key(std::string_view key) {
  const auto names = all_names();
  if (const auto near = nearest_key(key, names)) {
    return fmt::format("unknown key; did you mean \"{}\"?", *near);
  }
  const std::size_t dot = key.rfind('.');
  const std::string_view section = dot == std::string_view::npos ? "" : key.substr(0, dot);
  return fmt::format("unknown key; known here: {}", names_within(section));
}

// Collects a configuration from YAML and flags, and everything that is wrong with it.
class Reader {
 public:
  Reader(ConfigSource source, std::vector<ConfigError>& errors)
      : source_(std::move(source)), errors_(errors) {}

  void read(const YAML::Node& root) {
    root_ = place_of(root);
    if (root_.line == 0 && !source_.file.empty()) root_ = {1, 1};  // an empty file
    if (!root || root.IsNull()) return;
    if (!root.IsMap()) return fail(root_, "", must_be_mapping(root));
    read_map(root, "");
  }

  // The keys of one section alone, as if they stood in the table's `section`.
  void read_section(const YAML::Node& node, const std::string& section) {
    if (!node.IsMap()) return fail(place_of(node), section, must_be_mapping(node));
    read_map(node, section);
  }

  void read_flag(const ConfigFlag& flag) {
    const Field& field = *find_field(flag.key);
    take(field, flag_node(field, flag.value), {});
    result_.origins[flag.key] = kFlagOrigin;
  }

  // What no single key shows; to be called once all are read without an error.
  void check() {
    for (const Field& field : kFields) {
      if (field.required && !places_.contains(field.key) && !places_.contains(field.instead)) {
        const std::string instead =
            field.instead.empty()
                ? ""
                : fmt::format(" unless {}{} is given", root_.line == 0 ? "--" : "", field.instead);
        fail(root_, std::string(field.key),
             fmt::format("required{}: {}", instead, expectation(field)));
      }
    }
    if (!errors_.empty()) return;
    fill_defaults(result_.config, given());
    check_rules(result_.config, given(), [this](std::string_view key, const std::string& what) {
      const auto place = places_.find(key);
      fail(place == places_.end() ? root_ : place->second, std::string(key), what);
    });
  }

  ConfigResult& result() { return result_; }

 private:
  struct Place {
    int line = 0;  // from 1; 0: not from a file
    int column = 0;
  };

  static Place place_of(const YAML::Node& node) {
    const YAML::Mark mark = node.Mark();
    return mark.is_null() ? Place{} : Place{mark.line + 1, mark.column + 1};
  }

  static std::string must_be_mapping(const YAML::Node& node) {
    return fmt::format("must be a mapping, got {}", describe(node));
  }

  // Lists may be written without brackets in a flag.
  static YAML::Node flag_node(const Field& field, const std::string& value) {
    TrainerConfig config;
    const MemberRef member = field.member(config);
    const bool is_list = std::holds_alternative<std::vector<double>*>(member) ||
                         std::holds_alternative<std::vector<std::int64_t>*>(member) ||
                         std::holds_alternative<std::vector<std::string>*>(member) ||
                         std::holds_alternative<std::vector<augment::Augmentation>*>(member);
    const std::string flag = fmt::format("--{}", field.key);
    if (!is_list && !std::holds_alternative<std::string*>(member) && is_doubtful_number(value))
      throw Error(ExitCode::kUsage, fmt::format("{}: {}", flag, number_in_doubt(value)));
    if (!is_list) return YAML::Node(value);
    try {
      return load_yaml(value.starts_with('[') ? value : "[" + value + "]", flag);
    } catch (const Error& error) {
      throw Error(ExitCode::kUsage, error.what());
    }
  }

  void fail(Place place, const std::string& key, const std::string& what) {
    std::string full = source_.prefix + key;
    if (key.empty() && full.ends_with('.')) full.pop_back();
    errors_.push_back({full, place.line, place.column, what});
  }

  void read_map(const YAML::Node& map, const std::string& section) {
    for (const auto& entry : map) {
      const std::string name = entry.first.IsScalar() ? entry.first.Scalar() : "";
      const std::string key = section.empty() ? name : section + "." + name;
      const Place place = place_of(entry.first);
      if (source_.in_job && key == "checkpoint") {
        fail(place, key, "belongs to spec.checkpoint");
      } else if (const Field* field = find_field(key)) {
        take(*field, entry.second, place);
      } else if (is_section(key) && entry.second.IsMap()) {
        read_map(entry.second, key);
      } else if (is_section(key)) {
        fail(place, key, must_be_mapping(entry.second));
      } else {
        fail(place, name.size() > kMaxFlagBytes ? section : key, unknown_key(key));
      }
    }
  }

  // `place` is the key's: where a value that is nothing or not from a file is said to be.
  void take(const Field& field, const YAML::Node& node, Place place) {
    places_[std::string(field.key)] = place;
    if (place.line > 0) {
      result_.origins[std::string(field.key)] = fmt::format("{}:{}", source_.file, place.line);
    }
    read_value(field, node, result_.config,
               [&](const YAML::Node& at, const std::string& key, const std::string& what) {
                 const Place exact = place.line == 0 || at.IsNull() ? place : place_of(at);
                 fail(exact.line == 0 ? place : exact, key, what);
               });
  }

  std::set<std::string, std::less<>> given() const {
    std::set<std::string, std::less<>> keys;
    for (const auto& [key, place] : places_) keys.insert(key);
    return keys;
  }

  ConfigSource source_;
  std::vector<ConfigError>& errors_;
  ConfigResult result_;
  std::map<std::string, Place, std::less<>> places_;  // of the keys that were given
  Place root_;
};

// The first error and how many more there are. Flags have no line: bad usage.
[[noreturn]] void throw_first(const std::vector<ConfigError>& errors, const std::string& file) {
  const ConfigError& first = errors.front();
  const std::string more =
      errors.size() > 1 ? fmt::format(" (and {} more)", errors.size() - 1) : "";
  if (first.line > 0) {
    throw Error(ExitCode::kBadInput, fmt::format("[config] {}{}", to_text(first, file), more));
  }
  throw Error(ExitCode::kUsage, fmt::format("--{}: {}{}", first.key, first.message, more));
}

bool takes_no_value(const Field& field) {
  TrainerConfig config;
  return std::holds_alternative<bool*>(field.member(config));
}

}  // namespace

std::string to_text(const ConfigError& error, const std::string& file) {
  std::string place = file;
  if (error.line > 0)
    place += fmt::format("{}{}:{}", file.empty() ? "" : ":", error.line, error.column);
  if (!place.empty()) place += ": ";
  return place + (error.key.empty() ? "" : error.key + ": ") + error.message;
}

ConfigResult read_training(const YAML::Node& node, const ConfigSource& source,
                           std::vector<ConfigError>& errors) {
  std::vector<ConfigError> found;
  Reader reader(source, found);
  reader.read(node);
  reader.check();
  errors.insert(errors.end(), found.begin(), found.end());
  return reader.result();
}

void read_checkpoint(const YAML::Node& node, const ConfigSource& source, TrainerConfig& config,
                     std::vector<ConfigError>& errors) {
  ConfigSource section = source;
  section.in_job = false;
  Reader reader(section, errors);
  reader.read_section(node, "checkpoint");
  config.checkpoint = reader.result().config.checkpoint;
}

std::vector<ConfigFlag> parse_config_flags(const std::vector<std::string>& arguments) {
  const auto fail = [](const std::string& what) { return Error(ExitCode::kUsage, what); };
  if (arguments.size() > kMaxFlags) {
    throw fail(fmt::format("more than {} arguments", kMaxFlags));
  }
  std::vector<ConfigFlag> flags;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument.size() > kMaxFlagBytes) {
      throw fail(
          fmt::format("argument {} is longer than {} bytes", quote(argument), kMaxFlagBytes));
    }
    if (!argument.starts_with("--"))
      throw fail(fmt::format("unexpected argument {}", quote(argument)));
    const std::size_t equals = argument.find('=');
    const std::string key = argument.substr(2, equals == std::string::npos ? equals : equals - 2);
    const Field* field = find_field(key);
    if (field == nullptr) {
      const auto names = all_names();
      const auto near = nearest_key(key, names);
      const auto part = std::ranges::find_if(
          kFields, [&key](const Field& any) { return any.key.starts_with(key + "."); });
      const std::string hint = part != kFields.end()
                                   ? fmt::format("each of its keys is one: --{}", part->key)
                               : near ? fmt::format("did you mean --{}?", *near)
                                      : "see --print-config for all";
      throw fail(fmt::format("unknown flag {}; {}", quote("--" + key), hint));
    }
    ConfigFlag flag{key, "true"};
    if (equals != std::string::npos) {
      flag.value = argument.substr(equals + 1);
    } else if (i + 1 < arguments.size() && !arguments[i + 1].starts_with("--")) {
      flag.value = arguments[++i];
    } else if (!takes_no_value(*field)) {
      throw fail(fmt::format("--{} needs a value: {}", key, expectation(*field)));
    }
    const auto earlier = std::find_if(flags.begin(), flags.end(),
                                      [&key](const ConfigFlag& other) { return other.key == key; });
    if (earlier == flags.end()) {
      flags.push_back(flag);
    } else if (earlier->value != flag.value) {
      throw fail(fmt::format("--{} is given twice: {} and {}", key, quote(earlier->value),
                             quote(flag.value)));
    }
  }
  return flags;
}

ConfigResult read_config(std::string_view yaml, const std::string& file_name,
                         const std::vector<ConfigFlag>& flags) {
  std::vector<ConfigError> errors;
  Reader reader({.file = file_name, .prefix = "", .in_job = false}, errors);
  reader.read(load_yaml(yaml, file_name));
  if (!errors.empty()) throw_first(errors, file_name);
  for (const ConfigFlag& flag : flags) reader.read_flag(flag);
  if (errors.empty()) reader.check();
  if (!errors.empty()) throw_first(errors, file_name);
  return reader.result();
}

ConfigResult read_config_file(const std::filesystem::path& file,
                              const std::vector<ConfigFlag>& flags) {
  return read_config(read_yaml_file(file), file.string(), flags);
}

}  // namespace coxswain::contract
