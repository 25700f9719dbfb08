#include "trainer/report/tensorboard_records.h"

#include <bit>
#include <boost/crc.hpp>
#include <protozero/pbf_writer.hpp>

namespace coxswain::report {

namespace {

static_assert(std::endian::native == std::endian::little);

// Fields of TensorFlow's event.proto and summary.proto.
enum EventField { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7 };
enum SummaryField { kValue = 1 };
enum ValueField { kTag = 1, kSimpleValue = 2 };
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

}  // namespace coxswain::report
