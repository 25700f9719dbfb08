#pragma once

#include <cassert>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace coxswain::kube {

// Value. What the API server answered instead of what was asked for (its Status object), or that no
// answer came.
struct ApiError {
  int code = 0;         // HTTP status; 0: no answer, and the call may have had its effect
  std::string reason;   // AlreadyExists, Conflict, Forbidden, ...; NoAnswer for 0
  std::string message;  // the server's words, at most 1 KiB; never a token
  std::optional<std::chrono::seconds> retry_after;
  bool operator==(const ApiError&) const = default;
};

// "409 AlreadyExists: pods \"a\" already exists"
std::string to_text(const ApiError& error);

// What a call gives: a T, or the reason why not.
template <class T>
class Result {
 public:
  Result(T value) : content_(std::move(value)) {}
  Result(ApiError error) : content_(std::move(error)) {}

  bool ok() const { return content_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // Of a result that is ok().
  const T& operator*() const { return std::get<0>(content_); }
  T& operator*() { return std::get<0>(content_); }
  const T* operator->() const { return &std::get<0>(content_); }

  // Of one that is not.
  const ApiError& error() const { return std::get<1>(content_); }

 private:
  std::variant<T, ApiError> content_;
};

}  // namespace coxswain::kube
