#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "operator/convert/draft.h"

// A command as a shell would take it apart, as far as one can without running anything.
namespace coxswain::convert {

struct SimpleCommand {
  std::vector<std::pair<std::string, std::string>> environment;  // VAR=x in front of it
  std::vector<std::string> words;
};

// The words that people give after `--`. One word with a blank in it is a whole command line, with
// quotes, backslashes and continued lines. Redirections of what it prints aren't needed: the pods'
// logs keep it. Pipes, lists, substitutions and variables have no place, and are noted so.
SimpleCommand read_command(const std::vector<std::string>& given, Draft& draft);

// The same of one line, as `sh -c` would get it.
SimpleCommand read_line(std::string_view line, Draft& draft);

}  // namespace coxswain::convert
