#include "trainer/contract/program/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "trainer/contract/config/nearest_key.h"
#include "trainer/contract/config/yaml_text.h"
#include "trainer/contract/error.h"
#include "trainer/contract/printable.h"

namespace coxswain {

namespace {

constexpr std::size_t kMostOfArgument = 80;  // of an argument that is told

Error wrong(const CLI::App& app, const std::string& what) {
  std::string command = app.get_name();
  for (const CLI::App* parsed : app.get_subcommands()) command += " " + parsed->get_name();
  return {ExitCode::kUsage, fmt::format("{} (see {} --help)", what, command)};
}

const CLI::App* subcommand(const CLI::App& app, const std::string& name) {
  const auto found =
      app.get_subcommands([&](const CLI::App* one) { return one->get_name() == name; });
  return found.empty() ? nullptr : found.front();
}

bool takes_value(const CLI::Option& option) { return option.get_items_expected_min() > 0; }

bool takes_integer(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return type.starts_with("INT") || type.starts_with("UINT");
}

// The arguments with every value on its own. CLI11 2.1 takes `--flag=` for a flag without a value,
// and whatever comes next for the value of one.
std::vector<std::string> with_separate_values(
    const CLI::App& app, const std::vector<std::string>& arguments,
    std::initializer_list<std::string_view> may_be_empty) {
  std::vector<std::string> result;
  const CLI::App* command = &app;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (const CLI::App* inner = subcommand(*command, argument)) command = inner;
    const std::size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    const CLI::Option* option =
        name.starts_with("-") ? command->get_option_no_throw(name) : nullptr;
    if (option == nullptr || (!takes_value(*option) && !argument.ends_with('='))) {
      result.push_back(argument);
      continue;
    }
    const bool apart = equals == std::string::npos;
    const bool missing = apart && (i + 1 == arguments.size() || arguments[i + 1].starts_with("--"));
    const std::string value = missing ? "" : apart ? arguments[++i] : argument.substr(equals + 1);
    const bool may =
        !missing && std::find(may_be_empty.begin(), may_be_empty.end(), name) != may_be_empty.end();
    if (value.empty() && !may) throw Error(ExitCode::kUsage, name + " needs a value");
    if (takes_integer(*option) && contract::is_doubtful_number(value))  // CLI11 reads 010 as 8
      throw Error(ExitCode::kUsage, name + ": " + contract::number_in_doubt(value));
    result.insert(result.end(), {name, value});
  }
  return result;
}

// The argument that nobody takes, and the one that was probably meant.
std::string explain_extras(const CLI::App& app) {
  const std::vector<std::string> extras = app.remaining(true);
  const auto flag =
      std::ranges::find_if(extras, [](const std::string& text) { return text.starts_with("-"); });
  const std::string& extra = flag == extras.end() ? extras.front() : *flag;
  std::vector<std::string> known;
  for (const CLI::App* parsed : app.get_subcommands())
    for (const CLI::Option* option : parsed->get_options())
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  if (app.get_subcommands().empty())
    for (const CLI::App* one : app.get_subcommands({})) known.push_back(one->get_name());
  const std::vector<std::string_view> candidates(known.begin(), known.end());
  const auto meant = contract::nearest_key(extra.substr(0, extra.find('=')), candidates);
  return fmt::format("unknown argument {}{}",
                     extra.empty() ? "\"\"" : printable(extra, kMostOfArgument),
                     meant ? fmt::format("; did you mean {}?", *meant) : "");
}

}  // namespace

std::optional<std::string> parse_command_line(
    CLI::App& app, int argc, const char* const* argv,
    std::initializer_list<std::string_view> may_be_empty) {
  try {
    std::vector<std::string> arguments = with_separate_values(
        app, std::vector<std::string>(argv + std::min(argc, 1), argv + argc), may_be_empty);
    std::ranges::reverse(arguments);  // as CLI11 takes them
    app.parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    return app.help();
  } catch (const CLI::ParseError& error) {
    const bool no_command = app.get_subcommands().empty() && app.remaining_size() > 0;
    const bool extras = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
    throw wrong(app, no_command || extras ? explain_extras(app) : error.what());
  }
  return std::nullopt;
}

}  // namespace coxswain
