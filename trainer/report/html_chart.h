#pragma once

#include <string>
#include <utility>
#include <vector>

// PURE.
namespace coxswain::report {

// Value. One line of a chart; points without gaps, in the order of x.
struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;
  bool marks = false;  // its points are shown
};

// Value. A chart over steps.
struct Chart {
  std::string title;
  std::string unit;  // of the values, behind their numbers: "%"
  std::vector<Curve> curves;
  std::vector<double> restarts;  // steps where an attempt began
  double last_step = 0;          // the scale's end, at least
};

// A figure with an SVG of at most a few hundred points a curve; empty when there is no point.
std::string render_chart(const Chart& chart);

}  // namespace coxswain::report
