#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace coxswain {

// The words of an enumeration, as users write them: one table reads and prints it.
template <class E>
struct Word {
  E value;
  std::string_view text;
};

template <class E, std::size_t N>
using Words = std::array<Word<E>, N>;

template <class E, std::size_t N>
constexpr std::string_view word(const Words<E, N>& words, E value) {
  for (const auto& entry : words)
    if (entry.value == value) return entry.text;
  return "";
}

template <class E, std::size_t N>
constexpr std::optional<E> value_of(const Words<E, N>& words, std::string_view text) {
  for (const auto& entry : words)
    if (entry.text == text) return entry.value;
  return std::nullopt;
}

// By the table that words_of() gives for a value of the enumeration.
template <class E>
constexpr std::string_view word(E value) {
  return word(words_of(value), value);
}

template <class E>
constexpr std::optional<E> value_of(std::string_view text) {
  return value_of(words_of(E{}), text);
}

// "AllReduce, ParameterServer"
template <class E, std::size_t N>
std::string list_words(const Words<E, N>& words) {
  std::string list;
  for (const auto& entry : words) list.append(list.empty() ? "" : ", ").append(entry.text);
  return list;
}

}  // namespace coxswain
