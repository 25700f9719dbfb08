#include "operator/kube/object.h"

#include <gtest/gtest.h>

namespace coxswain::kube {
namespace {

TEST(Object, names_a_path_for_each_kind) {
  const Resource jobs{"coxswain.dev", "v1alpha1", "trainingjobs", "TrainingJob"};
  EXPECT_EQ(path_of(kPods, ""), "/api/v1/pods");
  EXPECT_EQ(path_of(kPods, "ns"), "/api/v1/namespaces/ns/pods");
  EXPECT_EQ(path_of(kPods, "ns", "a"), "/api/v1/namespaces/ns/pods/a");
  EXPECT_EQ(path_of(jobs, "ns", "a", "status"),
            "/apis/coxswain.dev/v1alpha1/namespaces/ns/trainingjobs/a/status");
  EXPECT_EQ(api_version(kPods), "v1");
  EXPECT_EQ(api_version(jobs), "coxswain.dev/v1alpha1");
}

TEST(Object, a_name_can_not_leave_its_place_in_the_path) {
  EXPECT_EQ(path_of(kPods, "a/../b", "x?y=1#%"),
            "/api/v1/namespaces/a%2F..%2Fb/pods/x%3Fy%3D1%23%25");
  EXPECT_EQ(percent_encoded("é \n"), "%C3%A9%20%0A");
}

TEST(Object, reads_its_metadata) {
  const Json object = Json::parse(R"({"metadata":{
      "namespace":"ns","name":"a","uid":"u","resourceVersion":"18446744073709551615",
      "deletionTimestamp":"2026-01-01T00:00:00Z",
      "ownerReferences":[{"uid":"other"},{"uid":"owner","controller":true}]}})");
  const ObjectMeta meta = meta_of(object);
  EXPECT_EQ(meta, (ObjectMeta{.name_space = "ns",
                              .name = "a",
                              .uid = "u",
                              .resource_version = 18446744073709551615u,
                              .controller_uid = "owner",
                              .terminating = true}));
  EXPECT_EQ(key_of(meta), "ns/a");
}

TEST(Object, what_is_of_another_type_reads_as_absent) {
  for (const char* text :
       {"[]", "{}", "null", R"({"metadata":7})",
        R"({"metadata":{"name":7,"uid":[],"namespace":{}}})",
        R"({"metadata":{"resourceVersion":"7x","ownerReferences":{"controller":true}}})",
        R"({"metadata":{"resourceVersion":"-1","ownerReferences":[7,{"controller":"true"}]}})",
        R"({"metadata":{"resourceVersion":7,"deletionTimestamp":null}})"})
    EXPECT_EQ(meta_of(Json::parse(text)), ObjectMeta{}) << text;
}

}  // namespace
}  // namespace coxswain::kube
