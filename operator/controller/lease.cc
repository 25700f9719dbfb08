#include "operator/controller/lease.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "trainer/contract/rfc3339.h"
#include "trainer/contract/worker/json_fields.h"

namespace coxswain::controller {

namespace {

using contract::member;
using contract::text_at;
using kube::Json;

constexpr int kDecimals = 6;  // as metav1.MicroTime is written

int count_of(const Json& value) {
  constexpr std::int64_t kMost = 1'000'000'000;
  if (!value.is_number_integer()) return 0;
  return static_cast<int>(std::clamp<std::int64_t>(value.get<std::int64_t>(), 0, kMost));
}

// What the holder promised: it renews before this is over.
std::chrono::seconds promised(const LeaseRecord& record, const LeaseTimes& times) {
  if (record.duration_seconds <= 0) return times.duration;
  return std::chrono::seconds(record.duration_seconds);
}

}  // namespace

LeaseView look_at(LeaseView view, std::optional<LeaseRecord> record, Monotonic now) {
  // A new version alone, of somebody's label, is no sign of life of the holder.
  LeaseRecord last = view.record.value_or(LeaseRecord{});
  if (record) last.resource_version = record->resource_version;
  const bool is_same = view.record && record && last == *record;
  if (!is_same) view.changed = now;
  view.record = std::move(record);
  return view;
}

LeaseMove next_move(const LeaseView& view, const std::string& identity, Monotonic now,
                    const LeaseTimes& times) {
  if (!view.record) return LeaseMove::kCreate;
  if (view.record->holder == identity) return LeaseMove::kRenew;
  if (view.record->holder.empty()) return LeaseMove::kTakeOver;
  const bool expired = now - view.changed >= promised(*view.record, times);
  return expired ? LeaseMove::kTakeOver : LeaseMove::kWait;
}

LeaseRecord next_record(const LeaseView& view, const std::string& identity, WallTime now,
                        const LeaseTimes& times) {
  LeaseRecord next;
  next.holder = identity;
  next.duration_seconds = static_cast<int>(times.duration.count());
  next.renew_time = next.acquire_time = to_rfc3339(now, kDecimals);
  if (!view.record) return next;
  const bool renews = view.record->holder == identity;
  if (renews && !view.record->acquire_time.empty()) next.acquire_time = view.record->acquire_time;
  next.transitions = view.record->transitions + (renews ? 0 : 1);
  next.resource_version = view.record->resource_version;
  return next;
}

LeaseRecord released_record(const LeaseRecord& record, WallTime now) {
  LeaseRecord released = record;
  released.holder.clear();
  released.duration_seconds = 1;
  released.renew_time = released.acquire_time = to_rfc3339(now, kDecimals);
  return released;
}

LeaseRecord read_lease(const Json& object) {
  const Json& spec = member(object, "spec");
  LeaseRecord record;
  record.holder = text_at(spec, "holderIdentity");
  record.duration_seconds = count_of(member(spec, "leaseDurationSeconds"));
  record.acquire_time = text_at(spec, "acquireTime");
  record.renew_time = text_at(spec, "renewTime");
  record.transitions = count_of(member(spec, "leaseTransitions"));
  record.resource_version = text_at(member(object, "metadata"), "resourceVersion");
  return record;
}

Json to_json(const LeaseRecord& record, const std::string& name_space, const std::string& name) {
  Json object = {{"apiVersion", kube::api_version(kube::kLeases)},
                 {"kind", kube::kLeases.kind},
                 {"metadata", {{"namespace", name_space}, {"name", name}}},
                 {"spec",
                  {{"leaseDurationSeconds", record.duration_seconds},
                   {"acquireTime", record.acquire_time},
                   {"renewTime", record.renew_time},
                   {"leaseTransitions", record.transitions}}}};
  // The API server takes no empty holder: nobody is no holder.
  if (!record.holder.empty()) object["spec"]["holderIdentity"] = record.holder;
  if (!record.resource_version.empty())
    object["metadata"]["resourceVersion"] = record.resource_version;
  return object;
}

}  // namespace coxswain::controller
