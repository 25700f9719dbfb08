#include <fmt/format.h>

#include <algorithm>

#include "operator/convert/convert.h"
#include "operator/convert/program.h"
#include "operator/convert/script.h"
#include "trainer/contract/printable.h"

namespace coxswain::convert {

namespace {

// The script of a program, and where it stands among its words.
struct Found {
  const Script* script = nullptr;
  std::string name = {};  // its file, for the job's name
  std::size_t at = 0;
};

Found find_script(const std::vector<std::string>& program) {
  Found found{.at = python_words(program)};
  if (found.at >= program.size()) return found;
  const bool module = program[found.at] == "-m" && found.at + 1 < program.size();
  if (module) ++found.at;
  const std::string& word = program[found.at];
  if (word == "-c") return found;
  found.name = word;
  if (module) std::ranges::replace(found.name, '.', '-');
  found.script = known_script(word);
  return found;
}

void train(const Found& found, const Launch& launch, Draft& draft) {
  const Script& script = *found.script;
  draft.note(Outcome::kBecame, base_name(launch.program[found.at]),
             fmt::format("{}: training", script.what));
  script.begin(draft);
  const std::vector<std::string> arguments(launch.program.begin() + std::ptrdiff_t(found.at) + 1,
                                           launch.program.end());
  take_options(script.options, OptionStyle::kArgparse, arguments, draft, true);
  script.end(launch, draft);
  draft.remove("script");
  for (const auto& [name, value] : launch.environment)
    draft.note(Outcome::kNotNeeded, name + "=" + value, "our trainer reads no such variable");
}

void run_as_it_is(const Launch& launch, const std::string& image, Draft& draft) {
  if (launch.program.empty()) return;
  set_up(launch, draft);
  fill_templates(launch, image, draft);
  explain_strategies(launch.program, draft);
  if (image.empty())
    draft.note(Outcome::kMind, launch.program.front(),
               "no image is said: on a cluster the operator's own runs, which has neither Python "
               "nor your program. Name yours with --image; coxswain run needs none");
}

// UTF-8 without control characters but for blanks: what a file of YAML can hold.
bool is_text(std::string_view word) {
  while (!word.empty()) {
    const std::size_t length = utf8_length(word);
    const auto first = static_cast<unsigned char>(word.front());
    const bool blank = first == '\n' || first == '\t';
    const bool control = first < 0x20 || first == 0x7F ||
                         (first == 0xC2 && static_cast<unsigned char>(word[1]) < 0xA0);
    if (length == 0 || (control && !blank)) return false;
    word.remove_prefix(length);
  }
  return true;
}

}  // namespace

Converted from_command(const std::vector<std::string>& words, const Request& request) {
  Draft draft;
  if (const auto odd = std::ranges::find_if_not(words, is_text); odd != words.end()) {
    draft.no_place(*odd, "is no text: bytes that are not UTF-8, or control characters");
    return finish(std::move(draft), request);
  }
  const SimpleCommand command = read_command(words, draft);
  const Launch launch = read_launch(command, request.read_file, draft);
  if (command.words.empty()) draft.no_place("", "no command: write it after --");
  place(launch, draft);
  const Found found = find_script(launch.program);
  draft.name = job_name(found.name.empty() ? launch.name : found.name);
  if (found.script)
    train(found, launch, draft);
  else
    run_as_it_is(launch, request.image, draft);
  return finish(std::move(draft), request);
}

}  // namespace coxswain::convert
