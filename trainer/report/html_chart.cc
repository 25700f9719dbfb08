#include "trainer/report/html_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "trainer/report/html_report.h"

namespace coxswain::report {

namespace {

constexpr double kWidth = 640, kHeight = 260;
constexpr double kLeft = 62, kRight = 14, kTop = 12, kBottom = 30;
constexpr std::size_t kMostPoints = 300;
constexpr std::size_t kMostMarks = 60;
constexpr int kTicks = 5;
constexpr double kMostValue = 1e30;  // nothing to see beside it

struct Range {
  double low = 0;
  double high = 0;
  void take(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

// 1, 2 or 5 times a power of ten, so that at most kTicks of them span the range.
double tick_size(const Range& range) {
  const double raw = std::max((range.high - range.low) / kTicks, 1e-12);
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= raw) return factor * power;
  return 10 * power;
}

// Every n-th point, and the last one.
std::vector<std::pair<double, double>> thinned(
    const std::vector<std::pair<double, double>>& points) {
  const std::size_t stride = points.size() / kMostPoints + 1;
  std::vector<std::pair<double, double>> few;
  for (std::size_t i = 0; i < points.size(); i += stride) few.push_back(points[i]);
  if (!points.empty() && few.back() != points.back()) few.push_back(points.back());
  return few;
}

// Where values lie in the picture.
class Frame {
 public:
  Frame(Range x, Range y) : x_(x), y_(y) {
    if (x_.high <= x_.low) x_.high = x_.low + 1;
    // A level line lies in the middle of a scale that floats can tell apart.
    const double least = std::max(std::abs(y_.low), std::abs(y_.high)) / 100;
    if (least == 0) y_.high = 1;
    if (y_.high - y_.low < least) y_ = {y_.low - least, y_.high + least};
    const double size = tick_size(y_);
    y_.low = std::floor(y_.low / size) * size;
    y_.high = std::max(std::ceil(y_.high / size) * size, y_.low + size);
  }
  double x(double value) const {
    return kLeft + (value - x_.low) / (x_.high - x_.low) * (kWidth - kLeft - kRight);
  }
  double y(double value) const {
    return kHeight - kBottom - (value - y_.low) / (y_.high - y_.low) * (kHeight - kTop - kBottom);
  }
  std::vector<double> x_ticks() const { return ticks(x_, std::max(1.0, tick_size(x_))); }
  std::vector<double> y_ticks() const { return ticks(y_, tick_size(y_)); }

 private:
  static std::vector<double> ticks(const Range& range, double size) {
    std::vector<double> all;
    const double first = std::ceil(range.low / size - 1e-9);
    for (int i = 0; i <= 2 * kTicks; ++i) {
      const double at = (first + i) * size;
      if (at <= range.high + size * 1e-9) all.push_back(at);
    }
    return all;
  }

  Range x_, y_;
};

std::string axes(const Frame& frame, const Chart& chart) {
  std::string text;
  for (const double value : frame.y_ticks()) {
    text += fmt::format(R"(<line class="grid" x1="{:.0f}" x2="{:.0f}" y1="{:.1f}" y2="{:.1f}"/>)"
                        R"(<text class="left" x="{:.0f}" y="{:.1f}">{:.6g}{}</text>)",
                        kLeft, kWidth - kRight, frame.y(value), frame.y(value), kLeft - 6,
                        frame.y(value) + 4, value, escaped(chart.unit));
  }
  for (const double value : frame.x_ticks()) {
    text += fmt::format(R"(<text class="below" x="{:.1f}" y="{:.0f}">{:.0f}</text>)",
                        frame.x(value), kHeight - kBottom + 18, value);
  }
  for (const double step : chart.restarts) {
    text += fmt::format(R"(<line class="restart" x1="{0:.1f}" x2="{0:.1f}" )"
                        R"(y1="{1:.0f}" y2="{2:.0f}">)"
                        "<title>an attempt began at step {3:.0f}</title></line>",
                        frame.x(step), kTop, kHeight - kBottom, step);
  }
  return text;
}

std::string line_of(const Curve& curve, const Frame& frame, std::size_t index) {
  const auto points = thinned(curve.points);
  std::string text = fmt::format(R"(<polyline class="curve c{}" points=")", index);
  for (const auto& [x, y] : points) text += fmt::format("{:.1f},{:.1f} ", frame.x(x), frame.y(y));
  text += R"("/>)";
  if (!curve.marks || points.size() > kMostMarks) return text;
  for (const auto& [x, y] : points) {
    text += fmt::format(R"(<circle class="m{}" cx="{:.1f}" cy="{:.1f}" r="3">)"
                        "<title>step {:.0f}: {:.6g}</title></circle>",
                        index, frame.x(x), frame.y(y), x, y);
  }
  return text;
}

}  // namespace

std::string render_chart(const Chart& chart) {
  std::optional<Range> x, y;
  for (const Curve& curve : chart.curves) {
    for (const auto& [at, value] : curve.points) {
      if (std::abs(value) > kMostValue) return "";
      if (!x) x = Range{at, at}, y = Range{value, value};
      x->take(at);
      y->take(value);
    }
  }
  if (!x) return "";
  x->take(0);
  x->take(chart.last_step);
  const Frame frame(*x, *y);
  std::string text = fmt::format("<figure><figcaption><b>{}</b>", escaped(chart.title));
  for (std::size_t i = 0; i < chart.curves.size(); ++i) {
    if (chart.curves[i].points.empty()) continue;
    text += fmt::format(R"( <span class="key k{}">{}, at last {:.6g}{}</span>)", i,
                        escaped(chart.curves[i].name), chart.curves[i].points.back().second,
                        escaped(chart.unit));
  }
  text += fmt::format(R"(</figcaption><svg viewBox="0 0 {:.0f} {:.0f}" )"
                      R"(role="img" aria-label="{}">)",
                      kWidth, kHeight, escaped(chart.title));
  text += axes(frame, chart);
  for (std::size_t i = 0; i < chart.curves.size(); ++i)
    if (!chart.curves[i].points.empty()) text += line_of(chart.curves[i], frame, i);
  return text + "</svg></figure>\n";
}

}  // namespace coxswain::report
