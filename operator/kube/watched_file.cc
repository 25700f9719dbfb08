#include "operator/kube/watched_file.h"

#include <algorithm>
#include <fstream>
#include <utility>

namespace coxswain::kube {

namespace {

constexpr std::size_t kMaxFileBytes = 1 << 20;
constexpr std::size_t kMaxTokenBytes = 64 << 10;

}  // namespace

std::optional<std::string> read_small_file(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) return std::nullopt;
  std::ifstream in(file, std::ios::binary);
  std::string text(kMaxFileBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad() || (!in.eof() && in.fail())) return std::nullopt;
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > kMaxFileBytes) return std::nullopt;
  text.shrink_to_fit();
  return text;
}

std::string trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(kSpace) - first + 1));
}

bool is_token(std::string_view text) {
  return !text.empty() && text.size() <= kMaxTokenBytes &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7F; });
}

WatchedFile::WatchedFile(std::filesystem::path file, std::string text,
                         std::function<std::optional<std::string>(const std::string&)> accept,
                         std::function<void()> on_garbage, Clock clock)
    : file_(std::move(file)),
      accept_(std::move(accept)),
      on_garbage_(std::move(on_garbage)),
      clock_(std::move(clock)),
      text_(std::move(text)) {}

std::string WatchedFile::text() {
  {
    const std::lock_guard lock(mutex_);
    const auto now = clock_();
    if (file_.empty() || (last_read_ && now - *last_read_ < kInterval)) return text_;
    last_read_ = now;  // whoever asks while this thread reads gets the text before
  }
  const auto bytes = read_small_file(file_);
  std::optional<std::string> text = bytes ? accept_(*bytes) : std::nullopt;
  bool turned_bad = false;
  std::string result;
  {
    const std::lock_guard lock(mutex_);
    turned_bad = was_good_ && !text;
    was_good_ = text.has_value();
    if (text) text_ = std::move(*text);
    result = text_;
  }
  if (turned_bad) on_garbage_();
  return result;
}

}  // namespace coxswain::kube
