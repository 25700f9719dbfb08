#include "operator/convert/mxnet_augment.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "operator/job/yaml.h"

namespace coxswain::convert {

namespace {

// A number that an option gave, or what it is without being told.
Json number(const Draft& draft, std::string_view key, const std::string& otherwise) {
  return job::plain_scalar(kept(draft, key, otherwise));
}

bool is_on(const Draft& draft, std::string_view key) {
  return kept(draft, key).find_first_not_of("0.") != std::string::npos;
}

// One warp for all of them, as theirs is.
void add_affine(const Draft& draft, Json& augment) {
  Json affine = Json::object();
  if (is_on(draft, kRotate)) affine["rotate"] = number(draft, kRotate, "0");
  if (is_on(draft, kShear)) affine["shear"] = number(draft, kShear, "0");
  if (is_on(draft, kAspect)) affine["aspect"] = number(draft, kAspect, "0");
  const Json scale = {number(draft, kSmallest, "1"), number(draft, kLargest, "1")};
  if (scale != Json{1, 1}) affine["scale"] = scale;
  if (!affine.empty()) augment.push_back({{"affine", affine}});
}

// Theirs are of 0..255.
std::optional<Json> of_one(const std::string& text) {
  Json list = Json::array();
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find(',', start), text.size());
    const Json value = job::plain_scalar(text.substr(start, end - start));
    if (!value.is_number()) return std::nullopt;
    list.push_back(job::plain_scalar(fmt::format("{:.6g}", value.get<double>() / 255)));
    start = end + 1;
  }
  return list;
}

void add_normalise(Draft& draft, Json& augment) {
  const std::string mean = kept(draft, kMean), deviation = kept(draft, kDeviation);
  if (mean.empty() && deviation.empty()) return;
  const auto means = of_one(mean.empty() ? "0,0,0" : mean);
  const auto deviations = of_one(deviation.empty() ? "255,255,255" : deviation);
  if (!means || !deviations)
    return draft.no_place("--rgb-mean, --rgb-std", "write three numbers with commas between");
  augment.push_back({{"normalise", {{"mean", *means}, {"std", *deviations}}}});
}

}  // namespace

void set_augmentation(Draft& draft, int size) {
  Json augment = Json::array();
  add_affine(draft, augment);
  const auto pad = whole_number(kept(draft, kPad, "0"));
  if (is_on(draft, kResizedCrop))
    augment.push_back("random-resized-crop");
  else if (kept(draft, kCrop, "0") == "1" && pad && *pad > 0)
    augment.push_back({{"pad-crop",
                        {{"pad", *pad},
                         {"size", size},
                         {"mode", "fill"},
                         {"fill", number(draft, kFill, "127")}}}});
  if (kept(draft, kFlip, "0") == "1") augment.push_back("flip");
  if (is_on(draft, kHue) || is_on(draft, kSaturationShift) || is_on(draft, kLightness))
    augment.push_back({{"hsl",
                        {number(draft, kHue, "0"), number(draft, kSaturationShift, "0"),
                         number(draft, kLightness, "0")}}});
  for (const auto& [key, name] :
       {std::pair(kBrightness, "brightness"), std::pair(kContrast, "contrast"),
        std::pair(kSaturation, "saturation"), std::pair(kPca, "pca")})
    if (is_on(draft, key)) augment.push_back({{name, number(draft, key, "0")}});
  add_normalise(draft, augment);
  if (!augment.empty()) draft.put("training.data.augment", augment);
}

}  // namespace coxswain::convert
