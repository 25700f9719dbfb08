#include "trainer/ps/minutes.h"

#include <fmt/format.h>

#include <cstring>
#include <type_traits>

#include "trainer/contract/error.h"

namespace coxswain::ps {

namespace {

// From the first that is not done to the last that is.
constexpr std::int64_t kMostSteps = std::int64_t{1} << 22;

[[noreturn]] void refuse(const char* what) {
  throw Error(ExitCode::kPeerLost, fmt::format("[ps] {}: no server of this job says that", what));
}

template <typename Value>
void append(Bytes& bytes, const Value& value) {
  static_assert(std::is_trivially_copyable_v<Value>);
  const auto its = std::as_bytes(std::span(&value, 1));
  bytes.insert(bytes.end(), its.begin(), its.end());
}

template <typename Value>
Value take(std::span<const std::byte>& bytes) {
  if (bytes.size() < sizeof(Value)) refuse("minutes that are cut off");
  Value value;
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes = bytes.subspan(sizeof value);
  return value;
}

constexpr int kNoEnd = 2;

}  // namespace

// Those that are not among them: few, however far the others are ahead of the slowest.
Bytes encode(const StepSet& steps) {
  std::vector<std::int64_t> missing;
  std::int64_t end = steps.low();
  for (const std::int64_t step : steps.beyond()) {
    while (end < step) missing.push_back(end++);
    ++end;
  }
  Bytes bytes;
  append(bytes, steps.low());
  append(bytes, end);
  append(bytes, std::ssize(missing));
  for (const std::int64_t step : missing) append(bytes, step);
  return bytes;
}

StepSet decode_steps(std::span<const std::byte>& bytes) {
  const auto low = take<std::int64_t>(bytes), end = take<std::int64_t>(bytes);
  const auto count = take<std::int64_t>(bytes);
  if (low < 0 || end < low || end - low > kMostSteps || count < 0 || count > end - low)
    refuse("a set of steps that can't be");
  StepSet steps(low);
  std::int64_t next = low;
  for (std::int64_t i = 0; i <= count; ++i) {
    const std::int64_t missing = i < count ? take<std::int64_t>(bytes) : end;
    if (missing < next || missing > end) refuse("a set of steps that is in no order");
    while (next < missing) steps.insert(next++);
    ++next;
  }
  return steps;
}

Bytes encode(const Minutes& minutes) {
  Bytes bytes = encode(minutes.done);
  append(bytes, minutes.fence);
  append(bytes, minutes.next);
  append(bytes, minutes.totals);
  const int end = minutes.end ? static_cast<int>(*minutes.end) : kNoEnd;
  for (const int number :
       {minutes.fences, static_cast<int>(minutes.is_cut), static_cast<int>(minutes.stop), end})
    append(bytes, number);
  const auto note = std::as_bytes(std::span(minutes.note));
  bytes.insert(bytes.end(), note.begin(), note.end());
  return bytes;
}

Minutes decode_minutes(std::span<const std::byte> bytes) {
  Minutes minutes;
  minutes.done = decode_steps(bytes);
  minutes.fence = take<std::int64_t>(bytes);
  minutes.next = take<std::int64_t>(bytes);
  minutes.totals = take<Totals>(bytes);
  minutes.fences = take<int>(bytes);
  minutes.is_cut = take<int>(bytes) == 1;
  minutes.stop = take<int>(bytes) == 1;
  if (const int end = take<int>(bytes); end != kNoEnd) minutes.end = end == 1;
  const std::int64_t low = minutes.done.low();
  if (minutes.fences < 0 || minutes.next < low || minutes.next - low > kMostSteps)
    refuse("minutes that can't be");
  minutes.note.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return minutes;
}

}  // namespace coxswain::ps
