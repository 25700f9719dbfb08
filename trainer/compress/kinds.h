#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

// What codec.h promises, of each kind; lengths have been checked.
namespace coxswain::compress {

// View. What is written, and where.
struct Encoding {
  std::span<const float> gradients;
  std::span<const float> residual;
  std::span<std::byte> bytes;
  std::span<float> left;
};

[[noreturn]] void refuse(const std::string& what);  // bytes that no encode() writes

void encode_exact(const Encoding& to);
void decode_exact(std::span<const std::byte> bytes, std::span<float> gradients);

// Of gradients whose turn it is not: whether all of them are finite, no more.
constexpr std::int64_t kRestingBytes = sizeof(float);
void encode_resting(const Encoding& to);
void decode_resting(std::span<const std::byte> bytes, std::span<float> gradients);

void encode_fp16(const Encoding& to);
void decode_fp16(std::span<const std::byte> bytes, std::span<float> gradients);

void encode_bf16(const Encoding& to);
void decode_bf16(std::span<const std::byte> bytes, std::span<float> gradients);

std::int64_t two_bit_bytes(std::int64_t floats);
void encode_two_bit(const Encoding& to, float threshold);
void decode_two_bit(std::span<const std::byte> bytes, float threshold, std::span<float> gradients);

std::int64_t one_bit_bytes(std::int64_t floats);
void encode_one_bit(const Encoding& to);
void decode_one_bit(std::span<const std::byte> bytes, std::span<float> gradients);

std::int64_t top_k_bytes(std::int64_t floats, double ratio);
void encode_top_k(const Encoding& to);
void decode_top_k(std::span<const std::byte> bytes, std::span<float> gradients);

}  // namespace coxswain::compress
