#include "operator/kube/result.h"

#include <fmt/format.h>

namespace coxswain::kube {

std::string to_text(const ApiError& error) {
  std::string text = error.reason;
  if (error.code != 0) text = fmt::format("{} {}", error.code, error.reason);
  if (!error.message.empty()) text += ": " + error.message;
  return text;
}

}  // namespace coxswain::kube
