#include "operator/cluster/kube_event.h"

#include <gtest/gtest.h>

namespace coxswain::cluster {
namespace {

job::TrainingJob named_job() {
  job::TrainingJob job;
  job.metadata.name = "mnist";
  job.metadata.name_space = "lab";
  job.metadata.uid = "1234";
  return job;
}

TEST(KubeEvent, says_what_happened_to_which_job) {
  const auto now = std::chrono::system_clock::time_point(std::chrono::microseconds(1'500'000));
  const auto event =
      event_object(named_job(), {true, "Restarting", "worker-1 exit=137"}, 2, "pod-a", now);
  EXPECT_EQ(event.at("eventTime"), "1970-01-01T00:00:01.500000Z");
  EXPECT_EQ(event.at("type"), "Warning");
  EXPECT_EQ(event.at("reason"), "Restarting");
  EXPECT_EQ(event.at("note"), "worker-1 exit=137");
  EXPECT_EQ(event.at("reportingInstance"), "pod-a");
  EXPECT_EQ(event.at("metadata").at("namespace"), "lab");
  EXPECT_EQ(event.at("metadata").at("annotations").at("coxswain.dev/attempt"), "2");
  EXPECT_EQ(event.at("regarding").at("uid"), "1234");
}

TEST(KubeEvent, cuts_a_long_note_between_characters) {
  const std::string note = std::string(1023, 'a') + "\u00e4 and more";
  const auto event = event_object(named_job(), {false, "Running", note}, 0, "", {});
  EXPECT_EQ(event.at("note"), std::string(1023, 'a'));
  EXPECT_EQ(event.at("type"), "Normal");
  EXPECT_EQ(event.at("reportingInstance"), "coxswain") << "it may not be empty";
}

}  // namespace
}  // namespace coxswain::cluster
