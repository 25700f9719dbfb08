#include "trainer/launch/host_frames.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "trainer/contract/error.h"

namespace coxswain::launch {

namespace {

constexpr std::size_t kHeader = 9;
constexpr std::size_t kMostBeforeGreeting = 64 << 10;
constexpr std::string_view kKinds = "hbsqaroez";

void append_number(std::string& bytes, std::uint32_t number) {
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift & 255);
}

std::uint32_t number_at(std::string_view bytes, std::size_t place) {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < 4; ++i)
    number = number << 8 | static_cast<unsigned char>(bytes[place + i]);
  return number;
}

}  // namespace

std::string to_bytes(const Frame& frame) {
  std::string bytes(1, static_cast<char>(frame.kind));
  append_number(bytes, static_cast<std::uint32_t>(frame.rank));
  append_number(bytes, static_cast<std::uint32_t>(frame.body.size()));
  return bytes + frame.body;
}

bool FrameReader::find_greeting() {
  const std::size_t found = bytes_.find(kHostGreeting);
  if (found == std::string::npos) {
    if (bytes_.size() > kMostBeforeGreeting)
      throw Error(ExitCode::kInternal, "[host] something else than coxswain-trainer answers");
    return false;
  }
  bytes_.erase(0, found + kHostGreeting.size());
  awaits_greeting_ = false;
  return true;
}

std::optional<Frame> FrameReader::next() {
  if (awaits_greeting_ && !find_greeting()) return std::nullopt;
  if (bytes_.size() < kHeader) return std::nullopt;
  const std::uint32_t rank = number_at(bytes_, 1), size = number_at(bytes_, 5);
  if (kKinds.find(bytes_.front()) == std::string_view::npos || size > kMostFrameBody ||
      rank > INT32_MAX)
    throw Error(ExitCode::kInternal, "[host] what came over SSH is no frame of ours");
  if (bytes_.size() < kHeader + size) return std::nullopt;
  Frame frame{static_cast<FrameKind>(bytes_.front()), static_cast<int>(rank),
              bytes_.substr(kHeader, size)};
  bytes_.erase(0, kHeader + size);
  return frame;
}

std::string to_json(const HostOrder& order) {
  const nlohmann::json json{
      {"environment", order.environment}, {"command", order.command}, {"config", order.config},
      {"hostfile", order.hostfile},       {"key", order.key},         {"wroteOn", order.wrote_on}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::optional<HostOrder> parse_host_order(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  try {
    return HostOrder{.environment = json.at("environment"),
                     .command = json.at("command"),
                     .config = json.at("config"),
                     .hostfile = json.at("hostfile"),
                     .key = json.at("key"),
                     .wrote_on = json.at("wroteOn")};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

}  // namespace coxswain::launch
