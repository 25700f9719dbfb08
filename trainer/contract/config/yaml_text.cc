#include "trainer/contract/config/yaml_text.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <vector>

#include "trainer/contract/config/text.h"

namespace coxswain::contract {

namespace {

constexpr std::int64_t kMaxNodes = 100'000;

struct Place {
  int line = 0;  // from 0
  int column = 0;
  bool operator==(const Place&) const = default;
};

Place place_of(const YAML::Mark& mark) {
  return {std::max(mark.line, 0), std::max(mark.column, 0)};
}

Place place_of(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 = 0
  return {static_cast<int>(std::count(before.begin(), before.end(), '\n')),
          static_cast<int>(offset - line_start)};
}

[[noreturn]] void refuse(const std::string& file_name, Place place, const std::string& what) {
  throw Error(ExitCode::kBadInput, fmt::format("[config] {}:{}:{}: {}", file_name, place.line + 1,
                                               place.column + 1, what));
}

constexpr const char* kOddKey = "a key must be text";

// A broken rule of ours, thrown through the parser.
struct Refused {
  Place place;
  std::string what;
};

// The digits of a number in the base that its prefix names; none for 10.
std::string_view digits_of_base(std::string_view number) {
  if (number.size() < 3 || number[0] != '0') return {};
  const char base = static_cast<char>(std::tolower(static_cast<unsigned char>(number[1])));
  return base == 'b'   ? "01"
         : base == 'o' ? "01234567"
         : base == 'x' ? "0123456789abcdefABCDEF"
                       : "";
}

// Whether a tag says no more than its value does: none, text ("!" where it is quoted), a list, a
// mapping.
bool is_plain_tag(std::string_view tag) {
  const auto is_one_of = [&](auto... tags) { return ((tag == tags) || ...); };
  return is_one_of("", "?", "!", "tag:yaml.org,2002:str", "tag:yaml.org,2002:seq",
                   "tag:yaml.org,2002:map");
}

// Walks the parser's events before any tree is built: depth, duplicate keys, aliases, scalars.
class Inspector : public YAML::EventHandler {
 public:
  // At a comma outside of brackets the parser finds one empty document after another.
  explicit Inspector(std::optional<Place> before) : before_(before) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    begin_ = place_of(mark);
    if (begin_ == before_) throw Refused{*begin_, "a comma outside of brackets"};
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_as_key(mark);
    leaf(mark, anchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    if (value.find('\0') != std::string::npos)
      throw Refused{place_of(mark), fmt::format("{} holds a NUL", quote(value))};
    refuse_tag(mark, tag);
    if (tag == "?" && value == "<<" && !open_.empty() && open_.back().at_key)
      throw Refused{place_of(mark), "merge keys (<<) are not read: write out what is merged"};
    if (tag == "?" && is_doubtful_number(value)) {
      throw Refused{place_of(mark), number_in_doubt(value) + ", or quote it"};
    }
    if (!open_.empty() && open_.back().at_key && !open_.back().keys.insert(value).second) {
      throw Refused{place_of(mark), fmt::format("duplicate key {}", quote(value))};
    }
    leaf(mark, anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto known = sizes_.find(anchor);
    if (known == sizes_.end()) throw Refused{place_of(mark), "cycle: an alias within its anchor"};
    refuse_as_key(mark);
    count(mark, known->second);
    ended(known->second);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    refuse_tag(mark, tag);
    open(mark, anchor, false);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    refuse_tag(mark, tag);
    open(mark, anchor, true);
  }
  void OnMapEnd() override { close(); }

  // A list or a mapping as a key. To be asked at the end: an open bracket looks like one until
  // then.
  const std::optional<Place>& odd_key() const { return odd_key_; }

  std::optional<Place> begin() const { return begin_; }

  // Where the last thing began that was read to its end.
  Place last() const { return last_; }

 private:
  struct Collection {
    YAML::anchor_t anchor = YAML::NullAnchor;
    bool is_map = false;
    bool at_key = false;  // the next child is a key
    bool is_key = false;  // so it seems: see odd_key()
    std::int64_t size = 1;
    std::set<std::string> keys;
  };

  void refuse_as_key(const YAML::Mark& mark) const {
    if (!open_.empty() && open_.back().at_key) throw Refused{place_of(mark), kOddKey};
  }

  static void refuse_tag(const YAML::Mark& mark, const std::string& tag) {
    if (is_plain_tag(tag)) return;
    throw Refused{place_of(mark),
                  fmt::format("the tag {} is not read: write the value without it", quote(tag))};
  }

  void leaf(const YAML::Mark& mark, YAML::anchor_t anchor) {
    count(mark, 1);
    if (anchor != YAML::NullAnchor) sizes_[anchor] = 1;
    ended(1);
  }

  void open(const YAML::Mark& mark, YAML::anchor_t anchor, bool is_map) {
    const bool is_key = !open_.empty() && open_.back().at_key;
    if (is_key && !odd_key_) odd_key_ = place_of(mark);
    // What seems to be a key seems to be within a mapping of its own.
    const auto levels = std::count_if(open_.begin(), open_.end(),
                                      [](const Collection& one) { return !one.is_key; });
    if (!is_key && levels >= kMaxYamlDepth) {
      throw Refused{place_of(mark), fmt::format("nested deeper than {} levels", kMaxYamlDepth)};
    }
    count(mark, 1);
    open_.push_back({.anchor = anchor,
                     .is_map = is_map,
                     .at_key = is_map,
                     .is_key = is_key,
                     .size = 1,
                     .keys = {}});
  }

  void close() {
    const Collection closed = std::move(open_.back());
    open_.pop_back();
    if (closed.anchor != YAML::NullAnchor) sizes_[closed.anchor] = closed.size;
    ended(closed.size);
  }

  // A child of the innermost collection is complete.
  void ended(std::int64_t size) {
    if (open_.empty()) return;
    open_.back().size += size;
    if (open_.back().is_map) open_.back().at_key = !open_.back().at_key;
  }

  void count(const YAML::Mark& mark, std::int64_t size) {
    num_nodes_ += size;
    last_ = place_of(mark);
    if (num_nodes_ > kMaxNodes) {
      throw Refused{place_of(mark), fmt::format("more than {} values", kMaxNodes)};
    }
  }

  std::optional<Place> before_;  // where the last document began,
  std::optional<Place> begin_;   // and this one
  std::vector<Collection> open_;
  std::map<YAML::anchor_t, std::int64_t> sizes_;  // of complete anchors, aliases expanded
  std::int64_t num_nodes_ = 0;
  std::optional<Place> odd_key_;
  Place last_;
};

void check_bytes(std::string_view text, const std::string& file_name) {
  if (text.size() > kMaxYamlBytes) {
    throw Error(ExitCode::kBadInput, fmt::format("[config] {}: {} bytes, above the limit of 1 MiB",
                                                 file_name, text.size()));
  }
  if (text.starts_with("\xFE\xFF") || text.starts_with("\xFF\xFE")) {
    refuse(file_name, {}, "is UTF-16; save it as UTF-8");
  }
  if (text.starts_with("\xEF\xBB\xBF")) {
    refuse(file_name, {}, "starts with a byte order mark; save it as UTF-8 without one");
  }
  const auto control = std::find_if(text.begin(), text.end(), [](char c) {
    return (static_cast<std::uint8_t>(c) < 0x20 && c != '\n' && c != '\r' && c != '\t') ||
           c == 0x7F;
  });
  if (control != text.end()) {
    refuse(file_name, place_of(text, static_cast<std::size_t>(control - text.begin())),
           fmt::format("control character 0x{:02x}", static_cast<std::uint8_t>(*control)));
  }
  if (const std::size_t at = find_invalid_utf8(text); at != std::string_view::npos) {
    refuse(file_name, place_of(text, at),
           fmt::format("byte 0x{:02x} is not UTF-8", static_cast<std::uint8_t>(text[at])));
  }
}

// The tab in the indentation of a line, if it has one.
std::optional<int> tab_in_indentation(std::string_view text, int line) {
  for (; line > 0; --line) text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  const std::size_t tab = text.find_first_not_of(' ');
  if (tab == std::string_view::npos || text[tab] != '\t') return std::nullopt;
  return static_cast<int>(tab);
}

[[noreturn]] void refuse_syntax(std::string_view text, const std::string& file_name,
                                const YAML::Exception& error) {
  const Place place = place_of(error.mark);
  if (const auto tab = tab_in_indentation(text, place.line)) {
    refuse(file_name, {place.line, *tab}, "tab not allowed as indentation; use spaces");
  }
  const bool open_quote = error.msg == YAML::ErrorMsg::EOF_IN_SCALAR;
  refuse(file_name, place, open_quote ? "a quote is never closed" : error.msg);
}

void inspect(std::string_view text) {
  // The parser takes a quote that is open at the end of the last line for closed: let there be
  // more.
  std::istringstream stream{std::string(text) + "\n#"};
  YAML::Parser parser(stream);
  std::optional<Place> before;
  while (parser) {
    Inspector inspector(before);
    try {
      if (!parser.HandleNextDocument(inspector)) return;
    } catch (const YAML::ParserException& error) {
      if (error.msg != YAML::ErrorMsg::EOF_IN_SCALAR) {
        (void)YAML::LoadAll(std::string(text));  // the same error, at its own place
        throw;
      }
      throw Refused{inspector.last(), "a quote that opens after this is never closed"};
    }
    if (inspector.odd_key()) throw Refused{*inspector.odd_key(), kOddKey};
    before = inspector.begin();
  }
}

}  // namespace

bool is_doubtful_number(std::string_view text) {
  const bool has_sign = text.starts_with('+') || text.starts_with('-');
  if (text.starts_with('_')) return false;
  std::string number(text.substr(has_sign ? 1 : 0));
  const bool grouped = std::erase(number, '_') > 0;
  const auto all_of = [](std::string_view part, std::string_view allowed) {
    return !part.empty() && part.find_first_not_of(allowed) == std::string_view::npos;
  };
  if (const std::string_view digits = digits_of_base(number); !digits.empty()) {
    const bool plain_hexadecimal = !grouped && text.starts_with("0x");
    return all_of(std::string_view(number).substr(2), digits) && !plain_hexadecimal;
  }
  const bool octal = number.size() > 1 && number[0] == '0' && all_of(number, "0123456789");
  return octal || (grouped && all_of(number.substr(0, 1), "0123456789.") &&
                   all_of(number, "0123456789.eE+-"));
}

std::string number_in_doubt(std::string_view text) {
  return fmt::format("{} is not the same number to all readers of YAML: write it in decimal",
                     quote(text));
}

std::vector<YAML::Node> load_yaml_documents(std::string_view text, const std::string& file_name) {
  check_bytes(text, file_name);
  try {
    inspect(text);
    return YAML::LoadAll(std::string(text));
  } catch (const Refused& refused) {
    refuse(file_name, refused.place, refused.what);
  } catch (const YAML::Exception& error) {
    refuse_syntax(text, file_name, error);
  }
}

YAML::Node load_yaml(std::string_view text, const std::string& file_name) {
  const std::vector<YAML::Node> documents = load_yaml_documents(text, file_name);
  if (documents.size() > 1) {
    throw Error(ExitCode::kBadInput,
                fmt::format("[config] {}: holds more than one document", file_name));
  }
  return documents.empty() ? YAML::Node() : documents.front();
}

std::string read_yaml_file(const std::filesystem::path& file) {
  const auto fail = [&file](const std::string& what) -> Error {
    return Error(ExitCode::kBadInput, fmt::format("[config] {}: {}", file.string(), what));
  };
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(file, error);
  if (status.type() == std::filesystem::file_type::not_found) throw fail("not found");
  if (!std::filesystem::status_known(status)) throw fail(error.message());
  if (!std::filesystem::is_regular_file(status)) throw fail("is not a file");
  std::ifstream in(file, std::ios::binary);
  if (!in) throw fail("cannot be read: permission denied");
  std::string text(kMaxYamlBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad()) throw fail("cannot be read: input error");
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > kMaxYamlBytes) throw fail("above the limit of 1 MiB");
  return text;
}

}  // namespace coxswain::contract
