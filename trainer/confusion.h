#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace coxswain {

// Value. How often images of each class were taken for each class.
class Confusion {
 public:
  // Throws Error (65) for more classes than a table of them has room for.
  explicit Confusion(std::int64_t classes, std::vector<std::string> names = {});

  void add(std::int32_t label, std::size_t taken_for);
  std::int64_t count(std::size_t label, std::size_t taken_for) const {
    return counts_[label * classes_ + taken_for];
  }

  // A line for each class with its accuracy and what it was mostly mistaken for; the matrix too
  // while a line has room for it.
  std::string to_text() const;
  // {"perClass":[{"class":0,"name":"cat","samples":9,"accuracy":0.5},...],"confusion":[[...],...]}
  // without the braces; of a class without samples the accuracy is null.
  std::string to_json() const;

 private:
  std::int64_t samples(std::size_t label) const;
  std::string name(std::size_t label) const;

  std::size_t classes_;
  std::vector<std::string> names_;
  std::vector<std::int64_t> counts_;  // (label, taken for)
};

}  // namespace coxswain
