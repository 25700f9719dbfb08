#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace coxswain::kube {

// The file's bytes, at most 1 MiB; nullopt if it is missing, larger or unreadable.
std::optional<std::string> read_small_file(const std::filesystem::path& file);

std::string trimmed(std::string_view text);

// Printable, without spaces, at most 64 KiB: fit for the line of a header.
bool is_token(std::string_view text);

// Resource. The text of a file that is replaced while we run, such as a token: read anew at most
// every 10 s. A file that vanished or holds garbage leaves the last good text. Thread-safe.
class WatchedFile {
 public:
  using Clock = std::function<std::chrono::steady_clock::time_point()>;
  static constexpr std::chrono::seconds kInterval{10};

  // `accept` gives the text to use of what the file holds, or nullopt for garbage. An empty `file`
  // is never read. `on_garbage` is told once each time that the file stops being good.
  WatchedFile(
      std::filesystem::path file, std::string text,
      std::function<std::optional<std::string>(const std::string& bytes)> accept,
      std::function<void()> on_garbage = [] {}, Clock clock = std::chrono::steady_clock::now);

  std::string text();

 private:
  const std::filesystem::path file_;
  const std::function<std::optional<std::string>(const std::string&)> accept_;
  const std::function<void()> on_garbage_;
  const Clock clock_;
  std::mutex mutex_;
  // Guarded by mutex_:
  std::string text_;
  std::optional<std::chrono::steady_clock::time_point> last_read_;
  bool was_good_ = true;
};

}  // namespace coxswain::kube
