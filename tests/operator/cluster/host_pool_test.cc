#include "operator/cluster/host_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/job/job_reader.h"
#include "trainer/contract/error.h"

namespace coxswain::cluster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::vector<HostSlots> kHosts = {{"h1", 4}, {"h2", 3}, {"h3", 2}};

TEST(PlaceWorkers, fills_one_host_after_the_other) {
  const std::vector<bool> all(3, true);
  EXPECT_THAT(place_workers(kHosts, all, 4, 2), ElementsAre(0, 0, 1, 2));
  EXPECT_THAT(place_workers(kHosts, all, 2, 2), ElementsAre(0, 0));
  EXPECT_THAT(place_workers(kHosts, all, 9, 1), ElementsAre(0, 0, 0, 0, 1, 1, 1, 2, 2));
  EXPECT_THAT(place_workers(kHosts, all, 2, 4), ElementsAre(0));  // as far as they reach
  EXPECT_THAT(place_workers(kHosts, all, 1, 5), IsEmpty());
}

TEST(PlaceWorkers, leaves_out_a_host_that_does_not_answer) {
  EXPECT_THAT(place_workers(kHosts, {false, true, true}, 2, 2), ElementsAre(1, 2));
  EXPECT_THAT(place_workers(kHosts, {false, false, false}, 2, 2), IsEmpty());
}

TEST(LibrariesToCarry, are_all_but_the_c_librarys_own) {
  EXPECT_THAT(libraries_to_carry("\tlinux-vdso.so.1 (0x00007ffd2)\n"
                                 "\tlibdnnl.so.2 => /lib/x86_64-linux-gnu/libdnnl.so.2 (0x00007f)\n"
                                 "\tlibstdc++.so.6 => /usr/lib/a b/libstdc++.so.6 (0x00007f)\n"
                                 "\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f)\n"
                                 "\tlibmpi.so.40 => /lib/libmpi.so.40 (0x00007f)\n"
                                 "\tlibgone.so.1 => not found\n"
                                 "\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n"),
              ElementsAre("/lib/x86_64-linux-gnu/libdnnl.so.2", "/usr/lib/a b/libstdc++.so.6",
                          "/lib/libmpi.so.40"));
}

std::string refusal(const job::TrainingJob& job, const std::vector<HostSlots>& hosts) {
  try {
    check_hosts(job, hosts);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return error.what();
  }
  return "";
}

TEST(CheckHosts, say_why_a_job_can_not_run_on_them) {
  job::TrainingJob job;
  job.spec.worker.replicas = 4;
  EXPECT_THAT(refusal(job, kHosts), HasSubstr("no `training`"));
  job.spec.training.emplace(job::Json::object());
  EXPECT_EQ(refusal(job, kHosts), "");
  job.spec.worker.replicas = 10;
  EXPECT_THAT(refusal(job, kHosts), HasSubstr("the hosts have places for 9"));
  job.spec.worker.replicas = 1;
  EXPECT_THAT(refusal(job, {{"h1", 1}, {"me@localhost", 1}}), HasSubstr("me@localhost: the other"));
  EXPECT_THAT(refusal(job, {{"127.0.0.1", 1}, {"h1", 1}}), HasSubstr("127.0.0.1"));
  EXPECT_EQ(refusal(job, {{"localhost", 1}}), "");
  job.spec.server.emplace();  // takes no place of a rank
  EXPECT_EQ(refusal(job, kHosts), "");
}

}  // namespace
}  // namespace coxswain::cluster
