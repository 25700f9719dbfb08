#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "operator/job/validation.h"

// tests/cluster/bad_jobs_test.py asks the API server whether it thinks so too.
namespace coxswain::job {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> refused(const std::string& pod_template) {
  std::vector<Problem> problems;
  check_pod(Json::parse(pod_template), "t", problems);
  std::vector<std::string> paths;
  for (const Problem& problem : problems) paths.push_back(problem.path);
  return paths;
}

std::string pod(const std::string& fields) { return R"({"spec":{)" + fields + "}}"; }

std::string container(const std::string& fields) {
  return pod(R"("containers":[{"name":"a",)" + fields + "}]");
}

std::string resources(const std::string& fields) {
  return container(R"("resources":{)" + fields + "}");
}

using Rows = std::vector<std::pair<std::string, std::string>>;

void expect_refused(const Rows& rows) {
  for (const auto& [text, path] : rows) EXPECT_THAT(refused(text), ElementsAre(path)) << text;
}

}  // namespace

TEST(PodRules, things_beyond_cpu_and_memory_are_whole_and_not_shared) {
  const std::string limit = "t.spec.containers[0].resources.limits.nvidia.com/gpu";
  expect_refused({
      {resources(R"("limits":{"nvidia.com/gpu":"0.5"})"), limit},
      {resources(R"("limits":{"nvidia.com/gpu":"500m"})"), limit},
      {resources(R"("limits":{"gpu":1})"), "t.spec.containers[0].resources.limits.gpu"},
      {resources(R"("limits":{"a b/c":1})"), "t.spec.containers[0].resources.limits.a b/c"},
      {resources(R"("requests":{"nvidia.com/gpu":1})"),
       "t.spec.containers[0].resources.requests.nvidia.com/gpu"},
      {resources(R"("requests":{"nvidia.com/gpu":1},"limits":{"nvidia.com/gpu":2})"),
       "t.spec.containers[0].resources.requests.nvidia.com/gpu"},
  });
  EXPECT_THAT(refused(resources(R"("requests":{"nvidia.com/gpu":"2","cpu":1},
                                   "limits":{"nvidia.com/gpu":2,"cpu":"1500m",
                                             "hugepages-2Mi":"4Mi","ephemeral-storage":"1e9"})")),
              IsEmpty());
}

TEST(PodRules, huge_pages_are_whole_pages_beside_memory) {
  const std::string limit = "t.spec.containers[0].resources.limits.hugepages-2Mi";
  expect_refused({
      {resources(R"("limits":{"hugepages-2Mi":"4Mi"})"), "t.spec.containers[0].resources"},
      {resources(R"("limits":{"hugepages-2Mi":"3Mi","memory":1})"), limit},
      {resources(R"("limits":{"hugepages-big":"4Mi","memory":1})"),
       "t.spec.containers[0].resources.limits.hugepages-big"},
  });
}

TEST(PodRules, what_a_whole_pod_gets_does_for_its_containers) {
  const std::string containers = R"("containers":[
      {"resources":{"limits":{"cpu":2}}},{"resources":{"requests":{"cpu":1}}}])";
  const auto with = [&](const char* given) { return pod(containers + R"(,"resources":)" + given); };
  expect_refused({
      {with(R"({"requests":{"cpu":2}})"), "t.spec.resources.requests.cpu"},
      {with(R"({"limits":{"cpu":1}})"), "t.spec.containers[0].resources.limits.cpu"},
      {with(R"({"limits":{"nvidia.com/gpu":1}})"), "t.spec.resources.limits.nvidia.com/gpu"},
  });
  EXPECT_THAT(refused(with(R"({"requests":{"cpu":3},"limits":{"cpu":3}})")), IsEmpty());
}

TEST(PodRules, a_device_is_a_claim_that_is_not_mounted) {
  const auto with = [](const char* device) {
    return pod(R"("volumes":[{"name":"v","emptyDir":{}},
        {"name":"c","persistentVolumeClaim":{"claimName":"x"}}],
        "containers":[{"volumeMounts":[{"name":"v","mountPath":"/m"}],"volumeDevices":[)" +
               std::string(device) + "]}]");
  };
  const std::string device = "t.spec.containers[0].volumeDevices[0]";
  expect_refused({
      {with(R"({"name":"x","devicePath":"/d"})"), device + ".name"},
      {with(R"({"name":"c","devicePath":"/m"})"), device + ".devicePath"},
  });
  EXPECT_THAT(refused(with(R"({"name":"c","devicePath":"/d"})")), IsEmpty());
}

TEST(PodRules, names_have_their_forms) {
  expect_refused({
      {pod(R"("containers":[{"name":"A"}])"), "t.spec.containers[0].name"},
      {pod(R"("containers":[{"name":"a"}],"initContainers":[{"name":"a"}])"),
       "t.spec.initContainers[0].name"},
      {pod(R"("volumes":[{"name":"A","emptyDir":{}}])"), "t.spec.volumes[0].name"},
      {container(R"("ports":[{"name":"80"}])"), "t.spec.containers[0].ports[0].name"},
      {container(R"("ports":[{"name":"x"},{"name":"x"}])"), "t.spec.containers[0].ports[1].name"},
      {pod(R"("hostname":"A_b")"), "t.spec.hostname"},
      {pod(R"("priorityClassName":"a b")"), "t.spec.priorityClassName"},
      {pod(R"("nodeSelector":{"a":"b c"})"), "t.spec.nodeSelector.a"},
      {pod(R"("nodeSelector":{"a b":"c"})"), "t.spec.nodeSelector.a b"},
      {R"({"metadata":{"labels":{"a":"b-"}}})", "t.metadata.labels.a"},
      {R"({"metadata":{"labels":{"a/":"b"}}})", "t.metadata.labels.a/"},
      {R"({"metadata":{"annotations":{"a b":"c"}}})", "t.metadata.annotations.a b"},
      {R"({"metadata":{"labels":{"coxswain.dev/job":"x"}}})", "t.metadata.labels.coxswain.dev/job"},
      {R"({"metadata":{"labels":{"training.kubeflow.org/job-name":"x"}}})",
       "t.metadata.labels.training.kubeflow.org/job-name"},
  });
}

TEST(PodRules, words_and_numbers_have_their_limits) {
  expect_refused({
      {container(R"("imagePullPolicy":"Sometimes")"), "t.spec.containers[0].imagePullPolicy"},
      {container(R"("ports":[{"protocol":"ICMP"}])"), "t.spec.containers[0].ports[0].protocol"},
      {container(R"("restartPolicy":"Always")"), "t.spec.containers[0].restartPolicy"},
      {container(R"("securityContext":{"runAsUser":-1})"),
       "t.spec.containers[0].securityContext.runAsUser"},
      {pod(R"("dnsPolicy":"Some")"), "t.spec.dnsPolicy"},
      {pod(R"("securityContext":{"supplementalGroupsPolicy":"Some"})"),
       "t.spec.securityContext.supplementalGroupsPolicy"},
      {container(R"("volumeMounts":[{"mountPath":"/a","recursiveReadOnly":"Some"}])"),
       "t.spec.containers[0].volumeMounts[0].recursiveReadOnly"},
      {pod(R"("nodeName":"a b")"), "t.spec.nodeName"},
      {pod(R"("readinessGates":[{"conditionType":"a b"}])"),
       "t.spec.readinessGates[0].conditionType"},
      {pod(R"("affinity":{"nodeAffinity":{"x":{"matchExpressions":[
           {"key":"a","operator":"Gt","values":["1","2"]}]}}})"),
       "t.spec.affinity.nodeAffinity.x.matchExpressions[0].values"},
      {pod(R"("activeDeadlineSeconds":0)"), "t.spec.activeDeadlineSeconds"},
      {pod(R"("volumes":[{"name":"v","secret":{"secretName":"x","defaultMode":512}}])"),
       "t.spec.volumes[0].secret.defaultMode"},
      {pod(R"("tolerations":[{"key":"a","effect":"Never"}])"), "t.spec.tolerations[0].effect"},
      {pod(R"("tolerations":[{"key":"a","operator":"Exists","value":"b"}])"),
       "t.spec.tolerations[0].value"},
      {pod(R"("tolerations":[{"value":"b"}])"), "t.spec.tolerations[0].operator"},
      {pod(R"("tolerations":[{"key":"a","tolerationSeconds":5}])"), "t.spec.tolerations[0].effect"},
      {pod(R"("hostAliases":[{"ip":"1.2.3"}])"), "t.spec.hostAliases[0].ip"},
  });
}

TEST(PodRules, of_several_ways_one_is_chosen) {
  expect_refused({
      {container(R"("env":[{"name":"A","value":"x","valueFrom":
           {"fieldRef":{"fieldPath":"metadata.name"}}}])"),
       "t.spec.containers[0].env[0].value"},
      {container(R"("env":[{"name":"A","valueFrom":{}}])"),
       "t.spec.containers[0].env[0].valueFrom"},
      {container(R"("envFrom":[{"prefix":"A"}])"), "t.spec.containers[0].envFrom[0]"},
      {container(R"("livenessProbe":{"periodSeconds":1})"), "t.spec.containers[0].livenessProbe"},
      {container(R"("lifecycle":{"preStop":{}})"), "t.spec.containers[0].lifecycle.preStop"},
      {pod(R"("initContainers":[{"name":"a","livenessProbe":{"exec":{"command":["x"]}}}])"),
       "t.spec.initContainers[0].livenessProbe"},
      {pod(R"("securityContext":{"seccompProfile":{"type":"Localhost"}})"),
       "t.spec.securityContext.seccompProfile.localhostProfile"},
      {pod(R"("securityContext":{"seccompProfile":{"type":"RuntimeDefault",
                                                   "localhostProfile":"a"}})"),
       "t.spec.securityContext.seccompProfile.localhostProfile"},
      {pod(R"("volumes":[{"name":"v","emptyDir":{},"configMap":{"name":"x"}}])"),
       "t.spec.volumes[0]"},
      {pod(R"("volumes":[{"name":"v","configMap":{}}])"), "t.spec.volumes[0].configMap.name"},
      {pod(R"("affinity":{"nodeAffinity":{"x":{"matchExpressions":[
           {"key":"a","operator":"In"}]}}})"),
       "t.spec.affinity.nodeAffinity.x.matchExpressions[0].values"},
      {pod(R"("affinity":{"podAffinity":{"x":{"matchExpressions":[
           {"key":"a","operator":"Gt","values":["5"]}]}}})"),
       "t.spec.affinity.podAffinity.x.matchExpressions[0].operator"},
  });
}

TEST(PodRules, texts_hold_no_nul_and_paths_lead_nowhere_else) {
  expect_refused({
      {container(R"("env":[{"name":"A","value":"a\u0000b"}])"),
       "t.spec.containers[0].env[0].value"},
      {container(R"("args":["x","\u0000"])"), "t.spec.containers[0].args[1]"},
      {container(R"("volumeMounts":[{"name":"v","mountPath":"/a","subPath":"x/../.."}])"),
       "t.spec.containers[0].volumeMounts[0].subPath"},
      {container(R"("volumeMounts":[{"name":"v","mountPath":"/a","subPath":"/x"}])"),
       "t.spec.containers[0].volumeMounts[0].subPath"},
  });
  EXPECT_THAT(
      refused(container(R"("volumeMounts":[{"name":"v","mountPath":"/a","subPath":"b/..c"}])")),
      IsEmpty());
}

TEST(PodRules, anything_may_be_of_any_type) {
  for (const char* value : {"3", "null", "[]", "{}", "\"x\"", "[[3]]", "[{}]", "[null]"})
    for (const char* key :
         {"containers", "volumes", "tolerations", "nodeSelector", "affinity", "hostAliases"})
      (void)refused(pod("\"" + std::string(key) + "\":" + value));
  for (const char* value :
       {"3", "[]", "{\"labels\":3,\"annotations\":[]}", "{\"labels\":{\"a\":3}}"})
    (void)refused(R"({"metadata":)" + std::string(value) + "}");
  for (const char* value : {"3", "{\"limits\":3}", "{\"limits\":{\"a/b\":[]}}"})
    (void)refused(container("\"resources\":" + std::string(value)));
}

TEST(Names, have_forms) {
  EXPECT_TRUE(is_dns_label("a-1"));
  EXPECT_FALSE(is_dns_label("-a") || is_dns_label("a.b") || is_dns_label("") ||
               is_dns_label(std::string(64, 'a')));
  EXPECT_TRUE(is_dns_subdomain("a-1.b"));
  EXPECT_FALSE(is_dns_subdomain("a..b") || is_dns_subdomain("a.") || is_dns_subdomain("A") ||
               is_dns_subdomain(""));
  EXPECT_TRUE(is_label_value("") && is_label_value("A_b.1"));
  EXPECT_FALSE(is_label_value("a b") || is_label_value("-a") ||
               is_label_value(std::string(64, 'a')));
  EXPECT_TRUE(is_qualified_name("a") && is_qualified_name("a.b/C_d"));
  EXPECT_FALSE(is_qualified_name("") || is_qualified_name("/a") || is_qualified_name("a/") ||
               is_qualified_name("a/b/c"));
}

}  // namespace coxswain::job
