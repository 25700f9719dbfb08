#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace coxswain::data {

// A record of CIFAR-10's binary version (https://www.cs.toronto.edu/~kriz/cifar.html): one label,
// then 32x32 red, green and blue planes, row by row.
constexpr std::int64_t kCifarSide = 32;
constexpr std::int64_t kCifarChannels = 3;
constexpr std::int64_t kCifarClasses = 10;
constexpr std::size_t kCifarPixels = kCifarChannels * kCifarSide * kCifarSide;
constexpr std::size_t kCifarRecord = 1 + kCifarPixels;

// Checks one batch file's content: whole records, labels 0..9. Throws Error (65) with `file` and
// the record.
void check_cifar10(std::span<const std::uint8_t> content, const std::filesystem::path& file);

}  // namespace coxswain::data
