#pragma once

#include <optional>
#include <string>
#include <string_view>

// Prometheus' text (exposition format 0.0.4), of one process.
namespace coxswain::report {

inline constexpr std::string_view kPrometheusType = "text/plain; version=0.0.4; charset=utf-8";

// Adds one metric with its two comment lines; nothing when the value is not known. A counter's name
// ends in _total.
void gauge(std::string& text, std::string_view name, std::string_view help,
           std::optional<double> value);
void counter(std::string& text, std::string_view name, std::string_view help, double value);

}  // namespace coxswain::report
