#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "operator/kube/object.h"

// PURE: the record of who leads, and what to do about it, as client-go's leaderelection does.
namespace coxswain::controller {

using Monotonic = std::chrono::nanoseconds;  // of a clock that also runs while the machine sleeps
using WallTime = std::chrono::system_clock::time_point;

struct LeaseTimes {
  std::chrono::seconds duration{15};
  std::chrono::seconds renew_deadline{10};
  std::chrono::seconds retry{2};
  // To read and to write. One that hangs leaves time for a second: 2.4 s of rest before each.
  std::chrono::seconds one_try{4};
};

struct LeaseRecord {
  std::string holder;  // empty: released
  int duration_seconds = 0;
  std::string acquire_time;  // RFC 3339 with microseconds
  std::string renew_time;
  int transitions = 0;
  std::string resource_version;
  bool operator==(const LeaseRecord&) const = default;
};

// Value. What we know of the lease: the record as it was last seen, and when it last changed by our
// own clock, so that clocks of others don't matter.
struct LeaseView {
  std::optional<LeaseRecord> record;
  Monotonic changed{0};
};

enum class LeaseMove { kCreate, kTakeOver, kRenew, kWait };

// The view after a GET: `record` is what it gave, nullopt that there is no such object.
LeaseView look_at(LeaseView view, std::optional<LeaseRecord> record, Monotonic now);

// A holder that has not renewed for the duration of its record has lost it.
LeaseMove next_move(const LeaseView& view, const std::string& identity, Monotonic now,
                    const LeaseTimes& times);

// The record to write for a move other than kWait.
LeaseRecord next_record(const LeaseView& view, const std::string& identity, WallTime now,
                        const LeaseTimes& times);

// The record that gives the lease away, for whoever asks next.
LeaseRecord released_record(const LeaseRecord& record, WallTime now);

// Reads and writes the Lease object; what is missing or wrong reads as released.
LeaseRecord read_lease(const kube::Json& object);
kube::Json to_json(const LeaseRecord& record, const std::string& name_space,
                   const std::string& name);

}  // namespace coxswain::controller
