#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

// Records of TensorBoard's event files. PURE. Each is an Event of TensorFlow's event.proto,
// framed as TFRecord: its length and its bytes, each with a masked CRC32C behind it.
namespace coxswain::report {

// Value. One point of a curve.
struct Scalar {
  std::string_view tag;  // "Loss/train"
  double value = 0;
};

// Value. When, in seconds since 1970, and after how many steps.
struct EventPlace {
  double wall_time = 0;
  std::int64_t step = 0;
};

// The first record of every file.
std::string version_record(double wall_time);
// Readers forget what they have of this step and later ones: a run goes on from there.
std::string start_record(const EventPlace& place);
// Values that are not finite stay: TensorBoard marks them.
std::string scalars_record(const EventPlace& place, std::span<const Scalar> scalars);
// How values lie between the least and the greatest, in 30 parts of one width; those that are not
// finite are left out.
std::string histogram_record(const EventPlace& place, std::string_view tag,
                             std::span<const float> values);

}  // namespace coxswain::report
