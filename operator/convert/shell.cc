#include "operator/convert/shell.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <utility>

namespace coxswain::convert {

namespace {

struct Token {
  std::string text;
  bool is_operator = false;
};

constexpr std::string_view kOperatorCharacters = "|&;<>()\n";

// Takes a line apart. What only a running shell could know is noted, and stands for nothing.
class Lexer {
 public:
  Lexer(std::string_view line, Draft& draft) : line_(line), draft_(draft) {}

  std::vector<Token> tokens() {
    while (at_ < line_.size()) step();
    end_word();
    return std::move(tokens_);
  }

 private:
  void step() {
    const char c = line_[at_];
    if (c == ' ' || c == '\t' || c == '\r') {
      end_word();
      ++at_;
    } else if (c == '\\') {
      escaped();
    } else if (c == '\'' || c == '"') {
      quoted(c);
    } else if (c == '#' && !in_word_) {
      at_ = std::min(line_.find('\n', at_), line_.size());
    } else if (kOperatorCharacters.find(c) != std::string_view::npos) {
      operation();
    } else {
      plain();
    }
  }

  void escaped() {
    if (at_ + 1 < line_.size() && line_[at_ + 1] != '\n') add(line_[at_ + 1]);
    at_ = std::min(at_ + 2, line_.size());
  }

  void quoted(char quote) {
    const std::size_t start = at_++;
    in_word_ = true;
    while (at_ < line_.size() && line_[at_] != quote) {
      const bool escape =
          quote == '"' && line_[at_] == '\\' && at_ + 1 < line_.size() &&
          std::string_view("\"\\$`\n").find(line_[at_ + 1]) != std::string_view::npos;
      if (escape) {
        if (line_[++at_] != '\n') word_ += line_[at_];
        ++at_;
      } else if (quote == '"' && (line_[at_] == '$' || line_[at_] == '`')) {
        plain();
      } else {
        word_ += line_[at_++];
      }
    }
    if (at_ == line_.size())
      draft_.no_place(std::string(line_.substr(start)), "a quote that is not closed");
    else
      ++at_;
  }

  // A character of a word, or what the shell would put in its place.
  void plain() {
    const char c = line_[at_];
    const char next = at_ + 1 < line_.size() ? line_[at_ + 1] : ' ';
    const bool variable = std::isalnum(static_cast<unsigned char>(next)) || next == '_';
    if (c == '`' || (c == '$' && (next == '(' || next == '{' || variable))) {
      substitution();
    } else {
      add(c);
      ++at_;
    }
  }

  void substitution() {
    const std::size_t start = at_;
    const char opening = line_[at_] == '`' ? '`' : line_[at_ + 1];
    if (opening == '(' || opening == '{') {
      const char closing = opening == '(' ? ')' : '}';
      int depth = 0;
      for (++at_; at_ < line_.size(); ++at_) {
        depth += (line_[at_] == opening) - (line_[at_] == closing);
        if (depth == 0) break;
      }
      at_ = std::min(at_ + 1, line_.size());
    } else if (opening == '`') {
      at_ = std::min(line_.find('`', at_ + 1), line_.size() - 1) + 1;
    } else {
      while (++at_ < line_.size() &&
             (std::isalnum(static_cast<unsigned char>(line_[at_])) || line_[at_] == '_')) {
      }
    }
    draft_.no_place(std::string(line_.substr(start, at_ - start)),
                    "only a shell knows what it is: write its value");
    in_word_ = true;
  }

  // `2>`, `>>`, `2>&1`, `&>`, `|`, `&&`, `;`
  void operation() {
    std::string text;
    const bool number =
        in_word_ && !word_.empty() &&
        std::all_of(word_.begin(), word_.end(), [](unsigned char c) { return std::isdigit(c); });
    if (number && (line_[at_] == '<' || line_[at_] == '>')) {
      text = std::exchange(word_, "");
      in_word_ = false;
    }
    end_word();
    do {
      text += line_[at_++];
    } while (at_ < line_.size() && text.back() != '\n' &&
             std::string_view("|&;<>").find(line_[at_]) != std::string_view::npos);
    if (text.ends_with(">&"))
      while (at_ < line_.size() && (std::isdigit(static_cast<unsigned char>(line_[at_]))))
        text += line_[at_++];
    tokens_.push_back({text, true});
  }

  void add(char c) {
    word_ += c;
    in_word_ = true;
  }

  void end_word() {
    if (in_word_) tokens_.push_back({word_, false});
    word_.clear();
    in_word_ = false;
  }

  std::string_view line_;
  Draft& draft_;
  std::size_t at_ = 0;
  std::vector<Token> tokens_;
  std::string word_;
  bool in_word_ = false;
};

constexpr auto kOperators =
    std::to_array<std::string_view>({"|", "||", "&&", "&", ";", "|&", ">", ">>", "<", "1>", "2>",
                                     "1>>", "2>>", "2>&1", "1>&2", "&>", "&>>", ">&"});

// What somebody quoted so that it comes through their own shell.
Token token_of(const std::string& word) {
  const bool known = std::find(kOperators.begin(), kOperators.end(), word) != kOperators.end();
  return {word, known};
}

bool is_redirection(const std::string& text) { return text.find('>') != std::string::npos; }
bool needs_file(const std::string& text) {
  return text.ends_with('>') || text.ends_with(">&");  // not 2>&1
}

// NAME, where the word is NAME=value.
std::optional<std::string> variable_of(const std::string& word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string::npos || equals == 0) return std::nullopt;
  const std::string name = word.substr(0, equals);
  const auto fits = [](unsigned char c) { return (c < 0x80 && std::isalnum(c)) || c == '_'; };
  if (!std::all_of(name.begin(), name.end(), fits) ||
      std::isdigit(static_cast<unsigned char>(name.front())))
    return std::nullopt;
  return name;
}

SimpleCommand command_of(const std::vector<Token>& tokens, Draft& draft) {
  SimpleCommand command;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::string& text = tokens[i].text;
    if (!tokens[i].is_operator) {
      const auto name = command.words.empty() ? variable_of(text) : std::nullopt;
      if (name)
        command.environment.emplace_back(*name, text.substr(name->size() + 1));
      else if (!(command.words.empty() && text == "env"))
        command.words.push_back(text);
    } else if (is_redirection(text)) {
      const bool file = needs_file(text) && i + 1 < tokens.size();
      draft.note(Outcome::kNotNeeded, file ? text + " " + tokens[i + 1].text : text,
                 "what the ranks print is in their pods' logs, and shown by coxswain run");
      if (file) ++i;
    } else if (text == "&" && i + 1 == tokens.size()) {
      draft.note(Outcome::kNotNeeded, text, "kubectl apply comes back at once");
    } else if (text != "\n" || (i + 1 < tokens.size() && !command.words.empty())) {
      draft.no_place(text == "\n" ? "a second line" : text,
                     "shell syntax: convert one command, without pipes and lists");
    }
  }
  return command;
}

}  // namespace

SimpleCommand read_line(std::string_view line, Draft& draft) {
  const auto trim = [&] {
    line.remove_prefix(std::min(line.find_first_not_of(" \t\r\n"), line.size()));
  };
  trim();
  for (const std::string_view mark : {"!", "%%bash\n", "%%sh\n", "$ "})  // a notebook's; a prompt
    if (line.starts_with(mark)) line.remove_prefix(mark.size());
  trim();
  return command_of(Lexer(line, draft).tokens(), draft);
}

SimpleCommand read_command(const std::vector<std::string>& given, Draft& draft) {
  if (given.size() == 1) return read_line(given.front(), draft);
  std::vector<Token> tokens;
  for (const std::string& word : given) tokens.push_back(token_of(word));
  return command_of(tokens, draft);
}

}  // namespace coxswain::convert
