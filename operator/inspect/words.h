#pragma once

#include <cstdint>
#include <string>

#include "operator/job/field.h"

// PURE: numbers and times as people read them.
namespace coxswain::inspect {

std::string counted(std::int64_t count, const std::string& noun);  // "1 rank", "1,200 ranks"
std::string grouped(std::int64_t number);                          // "1,200"
std::string duration(double seconds);                              // "3 min 9 s", "2 h 5 min"
std::string bytes_text(std::int64_t bytes);                        // "3.4 MB"
std::string clock_text(job::Time time);                            // "2026-01-31 12:00:01 UTC"

}  // namespace coxswain::inspect
