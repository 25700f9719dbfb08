#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "operator/job/job_reader.h"
#include "operator/job/plan.h"
#include "operator/job/validation.h"
#include "operator/job/roles.h"
#include "operator/job/worker_spec.h"
#include "tests/operator/job/job_fixtures.h"
#include "tests/support/job_builders.h"
#include "tests/support/test_flags.h"

namespace coxswain::test {

namespace {

using job::Json;

void collect(Json& value, std::vector<Json*>& places) {
  places.push_back(&value);
  if (value.is_structured())
    for (Json& inner : value) collect(inner, places);
}

// Puts junk, or a copy of another part, into a few places.
void spoil(Json& object, std::mt19937_64& random) {
  const std::vector<Json> junk = {
      nullptr,
      true,
      -1,
      0,
      1e300,
      18446744073709551615u,
      "",
      "1e999Gi",
      "a\nb\x01",
      "${x}",
      Json::array(),
      Json::array({nullptr, 1}),
      {{}},
      Json::object(),
      {{"spec", 1}},
      {{"name", Json::array()}},
      std::string(5000, 'x'),
  };
  for (std::uint64_t i = 1 + random() % 3; i > 0; --i) {
    std::vector<Json*> places;
    collect(object, places);
    Json& place = *places[random() % places.size()];
    place =
        random() % 4 == 0 ? Json(*places[random() % places.size()]) : junk[random() % junk.size()];
  }
}

}  // namespace

// Whatever the API server holds, one bad job never stops the operator.
TEST(Total, nothing_throws_for_any_object) {
  const std::uint64_t first = flags().seed_given ? flags().seed : 1;
  const std::uint64_t last = flags().seed_given ? flags().seed : 2000;
  Json whole = to_json(job::read_job(std::string_view(kEveryField), "job.yaml"));
  auto running = make_job().workers(4).servers(2).elastic(2, 8).restarting(2, "Peer");
  running.status().succeeded_ranks = "0-1";
  running.status().last_failure.emplace();
  whole["spec"]["runPolicy"]["suspend"] = false;
  whole["status"] = to_json(running.status());
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    std::mt19937_64 random(seed);
    Json object = whole;
    spoil(object, random);
    try {
      job::TrainingJob job = job::read_job(object);
      auto seen = observed(job);
      seen.running(0).failed(1, 71).said("PeerLost").attempt(1).pending(2).succeeded(3);
      (void)job::plan(job, seen);
      (void)job::validate(job, {});
      for (const auto level : {job::PodSecurity::kPrivileged, job::PodSecurity::kBaseline})
        (void)job::validate(job, {.trainer_image = "", .pod_security = level});
      job.status.workers = 3;
      for (const job::WorkerId& id : job::gang(job)) (void)to_text(job::worker_spec(job, id));
      (void)job::training_config(job);
      (void)to_json(job).dump(-1, ' ', false, Json::error_handler_t::replace);
    } catch (const std::exception& error) {
      FAIL() << error.what() << "; replay: test_job --seed " << seed << "\n" << object.dump(1);
    }
  }
}

}  // namespace coxswain::test
