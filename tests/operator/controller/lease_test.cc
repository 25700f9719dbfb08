#include "operator/controller/lease.h"

#include <gtest/gtest.h>

namespace coxswain::controller {

namespace {

using std::chrono::seconds;

const LeaseTimes kTimes;
const WallTime kNow = std::chrono::sys_days(std::chrono::year(2026) / 3 / 4) +
                      std::chrono::hours(5) + std::chrono::microseconds(1'000'006);

LeaseRecord held_by(const std::string& holder, int duration_seconds = 15) {
  LeaseRecord record;
  record.holder = holder;
  record.duration_seconds = duration_seconds;
  record.acquire_time = "2026-01-01T00:00:00.000000Z";
  record.renew_time = "2026-01-01T00:00:10.000000Z";
  record.transitions = 4;
  record.resource_version = "17";
  return record;
}

TEST(Lease, next_move_follows_the_record_and_our_own_clock) {
  struct Case {
    const char* what;
    std::optional<LeaseRecord> record;
    seconds since_change;
    LeaseMove move;
  };
  const Case cases[] = {
      {"no object", std::nullopt, seconds(0), LeaseMove::kCreate},
      {"an object that says nothing", LeaseRecord{}, seconds(0), LeaseMove::kTakeOver},
      {"released a moment ago", held_by("", 1), seconds(0), LeaseMove::kTakeOver},
      {"ours", held_by("us"), seconds(0), LeaseMove::kRenew},
      {"ours, though long expired", held_by("us"), seconds(900), LeaseMove::kRenew},
      {"another's, fresh", held_by("them"), seconds(0), LeaseMove::kWait},
      {"another's, almost expired", held_by("them"), seconds(14), LeaseMove::kWait},
      {"another's, expired", held_by("them"), seconds(15), LeaseMove::kTakeOver},
      {"another's with a short duration", held_by("them", 3), seconds(3), LeaseMove::kTakeOver},
      {"another's with a long duration", held_by("them", 60), seconds(59), LeaseMove::kWait},
      {"another's without a duration", held_by("them", 0), seconds(14), LeaseMove::kWait},
      {"another's without one, expired", held_by("them", 0), seconds(15), LeaseMove::kTakeOver},
  };
  for (const Case& c : cases) {
    const LeaseView view{c.record, seconds(1000)};
    EXPECT_EQ(next_move(view, "us", seconds(1000) + c.since_change, kTimes), c.move) << c.what;
  }
}

TEST(Lease, a_change_of_the_record_alone_is_a_sign_of_life) {
  LeaseView view = look_at({}, held_by("them"), seconds(10));
  EXPECT_EQ(view.changed, seconds(10));

  view = look_at(view, held_by("them"), seconds(20));
  EXPECT_EQ(view.changed, seconds(10));

  LeaseRecord labelled = held_by("them");
  labelled.resource_version = "18";
  view = look_at(view, labelled, seconds(22));
  EXPECT_EQ(view.changed, seconds(10)) << "somebody touched the object";
  EXPECT_EQ(view.record->resource_version, "18");

  LeaseRecord renewed = labelled;
  renewed.renew_time = "2020-01-01T00:00:00.000000Z";  // by a clock that is wrong: no matter
  view = look_at(view, renewed, seconds(23));
  EXPECT_EQ(view.changed, seconds(23));

  view = look_at(view, std::nullopt, seconds(24));
  EXPECT_FALSE(view.record);
  view = look_at(view, renewed, seconds(30));
  EXPECT_EQ(view.changed, seconds(30)) << "made anew";
}

TEST(Lease, the_record_of_each_move) {
  const std::string now = "2026-03-04T05:00:01.000006Z";

  const LeaseRecord created = next_record({}, "us", kNow, kTimes);
  EXPECT_EQ(created, (LeaseRecord{"us", 15, now, now, 0, ""}));

  const LeaseRecord taken = next_record({held_by("them"), {}}, "us", kNow, kTimes);
  EXPECT_EQ(taken, (LeaseRecord{"us", 15, now, now, 5, "17"}));

  const LeaseRecord renewed = next_record({held_by("us"), {}}, "us", kNow, kTimes);
  EXPECT_EQ(renewed, (LeaseRecord{"us", 15, "2026-01-01T00:00:00.000000Z", now, 4, "17"}));

  const LeaseRecord released = released_record(held_by("us"), kNow);
  EXPECT_EQ(released, (LeaseRecord{"", 1, now, now, 4, "17"}));
}

TEST(Lease, reads_what_it_writes) {
  const LeaseRecord record = held_by("us");
  const kube::Json object = to_json(record, "system", "operator");
  EXPECT_EQ(object.at("apiVersion"), "coordination.k8s.io/v1");
  EXPECT_EQ(object.at("kind"), "Lease");
  EXPECT_EQ(object.at("metadata"),
            (kube::Json{{"namespace", "system"}, {"name", "operator"}, {"resourceVersion", "17"}}));
  EXPECT_EQ(object.at("spec").at("holderIdentity"), "us");
  EXPECT_EQ(read_lease(object), record);
}

TEST(Lease, a_released_record_names_no_holder) {
  const kube::Json object = to_json(held_by("", 1), "system", "operator");
  EXPECT_FALSE(object.at("spec").contains("holderIdentity"));
  EXPECT_EQ(read_lease(object).holder, "");
  EXPECT_FALSE(
      to_json(LeaseRecord{}, "system", "operator").at("metadata").contains("resourceVersion"));
}

TEST(Lease, what_is_missing_or_wrong_reads_as_released) {
  for (const char* text :
       {"null", "[]", "7", "{}", R"({"spec": null})", R"({"spec": []})",
        R"({"spec": {"holderIdentity": 7, "leaseDurationSeconds": "15", "leaseTransitions": null,
                     "acquireTime": {}, "renewTime": 3.5},
            "metadata": "x"})",
        R"({"spec": {"leaseDurationSeconds": -4, "leaseTransitions": -1}})"})
    EXPECT_EQ(read_lease(kube::Json::parse(text)), LeaseRecord{}) << text;
  const auto huge = kube::Json::parse(R"({"spec": {"leaseDurationSeconds": 99999999999999}})");
  EXPECT_EQ(read_lease(huge).duration_seconds, 1'000'000'000);
}

}  // namespace

}  // namespace coxswain::controller
