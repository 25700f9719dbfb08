#include "trainer/contract/config/nearest_key.h"

#include <algorithm>
#include <cctype>
#include <vector>

namespace coxswain::contract {

namespace {

constexpr std::size_t kMaxLength = 64;  // longer words are no typing errors

// "batch-size", "batch_size" and "batchSize" are one word.
std::string plain(std::string_view key) {
  std::string result;
  for (const char c : key) {
    if (c == '-' || c == '_') continue;
    result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return result;
}

// Insertions, deletions, replacements and swaps of neighbours that make `a` of `b`.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      const std::size_t replace = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[a.size()][b.size()];
}

std::string_view last_part(std::string_view key) { return key.substr(key.rfind('.') + 1); }

}  // namespace

std::optional<std::string_view> nearest_key(std::string_view given,
                                            std::span<const std::string_view> candidates) {
  if (given.size() > kMaxLength) return std::nullopt;
  const std::string word = plain(given);
  const std::string_view word_last = last_part(word);
  // A third of the word may be wrong, and one letter always; another section counts as one.
  std::size_t best = std::max<std::size_t>(1, word_last.size() / 3) + 1;
  std::optional<std::string_view> nearest;
  for (const std::string_view candidate : candidates) {
    const std::string other = plain(candidate);
    const std::size_t distance =
        std::min(edit_distance(word, other), edit_distance(word_last, last_part(other)) + 1);
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace coxswain::contract
