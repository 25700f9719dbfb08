#include "trainer/report/prometheus_text.h"

#include <fmt/format.h>

#include <cmath>

namespace coxswain::report {

namespace {

void metric(std::string& text, std::string_view type, std::string_view name, std::string_view help,
            double value) {
  text += fmt::format("# HELP coxswain_{0} {1}\n# TYPE coxswain_{0} {2}\ncoxswain_{0} {3}\n", name,
                      help, type, value);
}

}  // namespace

void gauge(std::string& text, std::string_view name, std::string_view help,
           std::optional<double> value) {
  if (value && std::isfinite(*value)) metric(text, "gauge", name, help, *value);
}

void counter(std::string& text, std::string_view name, std::string_view help, double value) {
  metric(text, "counter", name, help, value);
}

}  // namespace coxswain::report
