#include "trainer/backend/onednn/weight_layouts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "trainer/contract/error.h"

namespace coxswain::backend::onednn {

Desc plain(const Dims& dims, Type type) {
  switch (dims.size()) {
    case 1:
      return {dims, type, Tag::a};
    case 2:
      return {dims, type, Tag::ab};
    case 5:
      return {dims, type, Tag::abcde};
    default:
      return {dims, type, Tag::abcd};
  }
}

Desc with_type(const Desc& desc, Type type) {
  if (type_of(desc) == type) return desc;
  constexpr std::array kOrders{Tag::abcd,   Tag::acdb,    Tag::aBcd16b, Tag::aBcd8b,
                               Tag::aBcd4b, Tag::Abcd16a, Tag::Abcd32a};
  if (dims_of(desc).size() == 4) {
    for (const Tag order : kOrders) {
      if (Desc(dims_of(desc), type_of(desc), order) == desc) return {dims_of(desc), type, order};
    }
  }
  return plain(dims_of(desc), type);
}

Dims dims_of_segment(const tensor::Segment& segment) {
  return {segment.dims.begin(), segment.dims.end()};
}

std::string name_of(const Desc& desc) {
  std::string blocks;
  const Dims sizes = block_sizes(desc);
  const Dims dims = block_dims(desc);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    blocks += fmt::format("{}{}", sizes[i], static_cast<char>('a' + dims[i]));
  }
  return fmt::format("{} stride {}{}{}", fmt::join(dims_of(desc), "x"),
                     fmt::join(strides_of(desc), "x"), blocks.empty() ? "" : " block ", blocks);
}

std::string WeightLayouts::add(const Desc& desc) {
  if (desc == plain(dims_of(desc), type_of(desc))) return "canonical";
  std::string name = name_of(desc);
  by_name_.emplace(name, desc);
  return name;
}

Desc WeightLayouts::find(const tensor::Segment& segment) const {
  if (segment.layout == "canonical") return plain(dims_of_segment(segment), Type::f32);
  const auto found = by_name_.find(segment.layout);
  if (found == by_name_.end()) {
    throw Error(ExitCode::kInternal,
                fmt::format("[onednn] {}: stored as \"{}\", which is not an order of this backend",
                            segment.name, segment.layout));
  }
  return found->second;
}

}  // namespace coxswain::backend::onednn
