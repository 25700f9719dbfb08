#include "trainer/contract/file_extension.h"

#include <algorithm>
#include <string>

namespace coxswain {

bool has_extension(const std::filesystem::path& file, std::string_view extension) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::ranges::equal(file.extension().native(), extension, {}, lower, lower);
}

}  // namespace coxswain
