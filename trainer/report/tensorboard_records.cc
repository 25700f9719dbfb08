#include "trainer/report/tensorboard_records.h"

#include <algorithm>
#include <bit>
#include <boost/crc.hpp>
#include <cmath>
#include <protozero/pbf_writer.hpp>
#include <vector>

namespace coxswain::report {

namespace {

static_assert(std::endian::native == std::endian::little);

// Fields of TensorFlow's event.proto and summary.proto.
enum EventField { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7 };
enum SummaryField { kValue = 1 };
enum ValueField { kTag = 1, kSimpleValue = 2, kHistogram = 5 };
enum HistogramField { kMin = 1, kMax, kCount, kSum, kSquares, kLimits, kBuckets };
enum SessionLogField { kStatus = 1 };
constexpr int kStart = 1;

using Crc32c = boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true>;

// As TFRecord has it: sums of sums are weak, so a stored one is turned.
std::uint32_t masked_checksum(std::string_view bytes) {
  Crc32c crc;
  crc.process_bytes(bytes.data(), bytes.size());
  const auto sum = static_cast<std::uint32_t>(crc.checksum());
  return std::rotr(sum, 15) + 0xA282EAD8U;
}

template <typename T>
std::string bytes_of(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

// Value. HistogramProto: limits[i] is the greatest value of bucket i.
struct Histogram {
  double min = 0, max = 0, count = 0, sum = 0, squares = 0;
  std::vector<double> limits, buckets;
};

Histogram histogram_of(std::span<const float> values) {
  constexpr std::size_t kParts = 30;
  Histogram histogram{.limits = std::vector<double>(kParts),
                      .buckets = std::vector<double>(kParts)};
  for (const float value : values) {
    if (!std::isfinite(value)) continue;
    const double number = value;
    histogram.min = histogram.count == 0 ? number : std::min(histogram.min, number);
    histogram.max = histogram.count == 0 ? number : std::max(histogram.max, number);
    histogram.count += 1;
    histogram.sum += number;
    histogram.squares += number * number;
  }
  const double width = (histogram.max - histogram.min) / kParts;
  for (std::size_t i = 0; i < kParts; ++i)
    histogram.limits[i] =
        i + 1 == kParts ? histogram.max : histogram.min + width * static_cast<double>(i + 1);
  for (const float value : values) {
    if (!std::isfinite(value)) continue;
    const double part = width > 0 ? (static_cast<double>(value) - histogram.min) / width : 0;
    histogram.buckets[std::min(kParts - 1, static_cast<std::size_t>(part))] += 1;
  }
  return histogram;
}

std::string framed(const std::string& event) {
  const std::string length = bytes_of(static_cast<std::uint64_t>(event.size()));
  return length + bytes_of(masked_checksum(length)) + event + bytes_of(masked_checksum(event));
}

}  // namespace

std::string version_record(double wall_time) {
  std::string event;
  protozero::pbf_writer writer(event);
  writer.add_double(kWallTime, wall_time);
  writer.add_string(kFileVersion, "brain.Event:2");
  return framed(event);
}

std::string start_record(const EventPlace& place) {
  std::string event;
  protozero::pbf_writer writer(event);
  writer.add_double(kWallTime, place.wall_time);
  writer.add_int64(kStep, place.step);
  {
    protozero::pbf_writer session(writer, kSessionLog);
    session.add_enum(kStatus, kStart);
  }
  return framed(event);
}

std::string scalars_record(const EventPlace& place, std::span<const Scalar> scalars) {
  std::string event;
  protozero::pbf_writer writer(event);
  writer.add_double(kWallTime, place.wall_time);
  writer.add_int64(kStep, place.step);
  {
    protozero::pbf_writer summary(writer, kSummary);
    for (const Scalar& scalar : scalars) {
      protozero::pbf_writer value(summary, kValue);
      value.add_string(kTag, scalar.tag.data(), scalar.tag.size());
      value.add_float(kSimpleValue, static_cast<float>(scalar.value));
    }
  }
  return framed(event);
}

std::string histogram_record(const EventPlace& place, std::string_view tag,
                             std::span<const float> values) {
  const Histogram histogram = histogram_of(values);
  std::string event;
  protozero::pbf_writer writer(event);
  writer.add_double(kWallTime, place.wall_time);
  writer.add_int64(kStep, place.step);
  {
    protozero::pbf_writer summary(writer, kSummary);
    protozero::pbf_writer value(summary, kValue);
    value.add_string(kTag, tag.data(), tag.size());
    protozero::pbf_writer written(value, kHistogram);
    written.add_double(kMin, histogram.min);
    written.add_double(kMax, histogram.max);
    written.add_double(kCount, histogram.count);
    written.add_double(kSum, histogram.sum);
    written.add_double(kSquares, histogram.squares);
    written.add_packed_double(kLimits, histogram.limits.begin(), histogram.limits.end());
    written.add_packed_double(kBuckets, histogram.buckets.begin(), histogram.buckets.end());
  }
  return framed(event);
}

}  // namespace coxswain::report
