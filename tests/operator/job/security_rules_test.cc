#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "operator/job/job_reader.h"
#include "operator/job/validation.h"

namespace coxswain::test {

namespace {

using job::PodSecurity;

// One row: a PodSpec of a template, and the path within it that is refused; empty: none. `baseline`
// refuses the same, or nothing.
struct PodCase {
  std::string pod;
  std::string refused;
  PodSecurity from = PodSecurity::kBaseline;  // the widest level that refuses it
};

constexpr PodSecurity kOnlyRestricted = PodSecurity::kRestricted;

std::string job_with(const std::string& pod_template) {
  return R"({"apiVersion":"coxswain.dev/v1alpha1","kind":"TrainingJob","metadata":{"name":"x"},
      "spec":{"training":{"model":"mlp","data":{"format":"mnist"}},
      "volumes":{"data":{"emptyDir":{}}},
      "replicaSpecs":{"Worker":{"replicas":1,"template":)" +
         pod_template + "}}}}";
}

std::string in_container(const std::string& fields, const char* list = "") {
  const std::string name = *list ? "first" : "trainer";
  const std::string container = R"({"name":")" + name + R"(","image":"a",)" + fields + "}";
  if (std::string(list).empty()) return R"({"containers":[)" + container + "]}";
  return R"({"containers":[{"name":"trainer"}],")" + std::string(list) + "\":[" + container + "]}";
}

std::string in_context(const std::string& fields, const char* list = "") {
  return in_container(R"("securityContext":{)" + fields + "}", list);
}

std::string in_pod(const std::string& fields) {
  return R"({"containers":[{"name":"trainer"}],)" + fields + "}";
}

std::string refusals(const std::string& text, PodSecurity level = PodSecurity::kRestricted) {
  job::Installation installation;
  installation.pod_security = level;
  std::string paths;
  for (const auto& problem : job::validate(job::read_job(text, "job.json"), installation))
    paths += (paths.empty() ? "" : " ") + problem.path;
  return paths;
}

void check(const std::vector<PodCase>& rows) {
  constexpr const char* kTemplate = "spec.replicaSpecs.Worker.template.spec.";
  for (const auto& [pod, refused, from] : rows)
    for (const auto level :
         {PodSecurity::kPrivileged, PodSecurity::kBaseline, PodSecurity::kRestricted}) {
      const std::string expected = refused.empty() || level < from ? "" : kTemplate + refused;
      EXPECT_EQ(refusals(job_with("{\"spec\":" + pod + "}"), level), expected)
          << pod << " at " << word(level);
    }
}

}  // namespace

// The controls of Pod Security, one by one, as its admission tests them.
TEST(SecurityRules, refuse_what_restricted_forbids_of_a_pod) {
  check({
      {in_pod(R"("hostNetwork":true)"), "hostNetwork"},
      {in_pod(R"("hostPID":true)"), "hostPID"},
      {in_pod(R"("hostIPC":true)"), "hostIPC"},
      {in_pod(R"("hostNetwork":false,"hostUsers":false)"), ""},
      {in_pod(R"("serviceAccountName":"robot","automountServiceAccountToken":true)"), ""},
      {in_pod(R"("os":{"name":"windows"})"), "os.name", PodSecurity::kPrivileged},
      {in_pod(R"("os":{"name":"linux"})"), ""},
      {in_pod(R"("ephemeralContainers":[{"name":"d"}])"), "ephemeralContainers[0]"},
      {in_pod(R"("securityContext":{"runAsNonRoot":false})"), "securityContext.runAsNonRoot",
       kOnlyRestricted},
      {in_pod(R"("securityContext":{"runAsUser":0})"), "securityContext.runAsUser",
       kOnlyRestricted},
      {in_pod(R"("securityContext":{"runAsUser":1000,"fsGroup":2000})"), ""},
      {in_pod(R"("securityContext":{"seccompProfile":{"type":"Unconfined"}})"),
       "securityContext.seccompProfile.type"},
      {in_pod(
           R"("securityContext":{"seccompProfile":{"type":"Localhost","localhostProfile":"p"}})"),
       ""},
      {in_pod(R"("securityContext":{"appArmorProfile":{"type":"Unconfined"}})"),
       "securityContext.appArmorProfile.type"},
      {in_pod(R"("securityContext":{"appArmorProfile":{"type":"RuntimeDefault"}})"), ""},
      {in_pod(R"("securityContext":{"seLinuxOptions":{"type":"spc_t"}})"),
       "securityContext.seLinuxOptions.type"},
      {in_pod(R"("securityContext":{"seLinuxOptions":{"user":"system_u"}})"),
       "securityContext.seLinuxOptions.user"},
      {in_pod(R"("securityContext":{"seLinuxOptions":{"role":"system_r"}})"),
       "securityContext.seLinuxOptions.role"},
      {in_pod(R"("securityContext":{"seLinuxOptions":{"type":"container_t","level":"s0"}})"), ""},
      {in_pod(R"("securityContext":{"sysctls":[{"name":"kernel.msgmax","value":"1"}]})"),
       "securityContext.sysctls[0].name"},
      {in_pod(R"("securityContext":{"sysctls":[{"name":"net.ipv4.tcp_rmem","value":"1"}]})"), ""},
      {in_pod(R"("securityContext":{"windowsOptions":{"hostProcess":true}})"),
       "securityContext.windowsOptions.hostProcess"},
  });
}

TEST(SecurityRules, refuse_what_restricted_forbids_of_a_container) {
  std::vector<PodCase> rows;
  for (const char* list : {"", "initContainers"}) {
    const std::string place = std::string(*list ? list : "containers") + "[0].";
    const auto add = [&](const char* fields, const char* refused,
                         PodSecurity from = PodSecurity::kBaseline) {
      rows.push_back(
          {in_context(fields, list), *refused ? place + "securityContext." + refused : "", from});
    };
    add(R"("privileged":true)", "privileged");
    add(R"("privileged":false)", "");
    add(R"("allowPrivilegeEscalation":true)", "allowPrivilegeEscalation", kOnlyRestricted);
    add(R"("allowPrivilegeEscalation":false)", "");
    add(R"("runAsNonRoot":false)", "runAsNonRoot", kOnlyRestricted);
    add(R"("runAsUser":0)", "runAsUser", kOnlyRestricted);
    add(R"("procMount":"Default")", "");
    add(R"("capabilities":{"add":["NET_RAW"],"drop":["ALL"]})", "capabilities.add[0]");
    add(R"("capabilities":{"add":["IPC_LOCK"]})", "capabilities.add[0]");
    add(R"("capabilities":{"add":["CHOWN"]})", "capabilities.add[0]", kOnlyRestricted);
    add(R"("capabilities":{"add":["NET_BIND_SERVICE"],"drop":["ALL"]})", "");
    add(R"("capabilities":{"drop":["NET_RAW"]})", "capabilities.drop", kOnlyRestricted);
    add(R"("capabilities":{"drop":[]})", "capabilities.drop", kOnlyRestricted);
    add(R"("seccompProfile":{"type":"Unconfined"})", "seccompProfile.type");
    add(R"("appArmorProfile":{"type":"Unconfined"})", "appArmorProfile.type");
    add(R"("seLinuxOptions":{"type":"spc_t"})", "seLinuxOptions.type");
    add(R"("windowsOptions":{"hostProcess":true})", "windowsOptions.hostProcess");
  }
  rows.push_back({R"({"hostUsers":false,"containers":[{"name":"trainer","image":"a",
                     "securityContext":{"procMount":"Unmasked"}}]})",
                  "containers[0].securityContext.procMount"});
  check(rows);
}

TEST(SecurityRules, refuse_ports_probes_and_hooks_of_the_host) {
  check({
      {in_container(R"("ports":[{"containerPort":80,"hostPort":80}])"),
       "containers[0].ports[0].hostPort"},
      {in_container(R"("ports":[{"containerPort":80,"hostPort":0}])"), ""},
      {in_container(R"("livenessProbe":{"httpGet":{"host":"bad","port":80}})"),
       "containers[0].livenessProbe.httpGet.host"},
      {in_container(R"("readinessProbe":{"tcpSocket":{"host":"::1","port":80}})"),
       "containers[0].readinessProbe.tcpSocket.host"},
      {in_container(R"("startupProbe":{"httpGet":{"host":"127.0.0.1","port":80}})"),
       "containers[0].startupProbe.httpGet.host"},
      {in_container(R"("lifecycle":{"postStart":{"httpGet":{"host":"bad","port":80}}})"),
       "containers[0].lifecycle.postStart.httpGet.host"},
      {in_container(R"("lifecycle":{"preStop":{"tcpSocket":{"host":"bad","port":80}}})"),
       "containers[0].lifecycle.preStop.tcpSocket.host"},
      {in_container(R"("livenessProbe":{"httpGet":{"host":"","port":80}})"), ""},
      {in_container(R"("readinessProbe":{"exec":{"command":["true"]}})"), ""},
  });
}

TEST(SecurityRules, refuse_volumes_of_the_host_and_of_other_systems) {
  std::vector<PodCase> rows;
  for (const auto& [kind, source] : std::initializer_list<std::pair<std::string, std::string>>{
           {"hostPath", R"({"path":"/a"})"},
           {"gcePersistentDisk", R"({"pdName":"a"})"},
           {"awsElasticBlockStore", R"({"volumeID":"a"})"},
           {"gitRepo", R"({"repository":"a"})"},
           {"nfs", R"({"server":"a","path":"/b"})"},
           {"iscsi", R"({"targetPortal":"a","iqn":"iqn.a","lun":0})"},
           {"glusterfs", R"({"endpoints":"a","path":"b"})"},
           {"rbd", R"({"monitors":["a"],"image":"b"})"},
           {"flexVolume", R"({"driver":"a"})"},
           {"cinder", R"({"volumeID":"a"})"},
           {"cephfs", R"({"monitors":["a"]})"},
           {"flocker", R"({"datasetName":"a"})"},
           {"fc", R"({"wwids":["a"]})"},
           {"azureFile", R"({"secretName":"a","shareName":"b"})"},
           {"vsphereVolume", R"({"volumePath":"a"})"},
           {"quobyte", R"({"registry":"a:1","volume":"b"})"},
           {"azureDisk", R"({"diskName":"a","diskURI":"https://a"})"},
           {"portworxVolume", R"({"volumeID":"a"})"},
           {"scaleIO", R"({"gateway":"a","system":"b","volumeName":"c"})"},
           {"storageos", R"({"volumeName":"a"})"},
           {"photonPersistentDisk", R"({"pdID":"a"})"}})
    rows.push_back({in_pod(R"("volumes":[{"name":"v",")" + kind + "\":" + source + "}]"),
                    "volumes[0]." + kind,
                    kind == "hostPath" ? PodSecurity::kBaseline : kOnlyRestricted});
  for (const char* source :
       {R"("configMap":{"name":"a"})", R"("csi":{"driver":"a"})", R"("downwardAPI":{})",
        R"("emptyDir":{})",
        R"("ephemeral":{"volumeClaimTemplate":{"spec":{
            "accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1"}}}}})",
        R"("image":{"reference":"a"})", R"("persistentVolumeClaim":{"claimName":"a"})",
        R"("projected":{})", R"("secret":{"secretName":"a"})"})
    rows.push_back({in_pod(R"("volumes":[{"name":"v",)" + std::string(source) + "}]"), ""});
  check(rows);
}

TEST(SecurityRules, refuse_app_armor_annotations_that_confine_nothing) {
  const std::pair<const char*, bool> rows[] = {
      {"unconfined", false}, {"runtime/default", true}, {"localhost/foo", true}, {"", false}};
  for (const auto& [profile, fits] : rows) {
    const std::string text = job_with(
        R"({"metadata":{"annotations":{
            "container.apparmor.security.beta.kubernetes.io/trainer":")" +
        std::string(profile) + R"("}},"spec":{"containers":[{"name":"trainer"}]}})");
    EXPECT_EQ(refusals(text).empty(), fits) << profile;
    EXPECT_EQ(refusals(text, PodSecurity::kBaseline).empty(), fits) << profile;
    EXPECT_EQ(refusals(text, PodSecurity::kPrivileged), "");
  }
}

// A label that was not read must not pass for the namespace's own.
TEST(SecurityRules, tell_the_level_and_why_it_may_be_another) {
  const job::TrainingJob job = job::read_job(
      std::string_view(job_with("{\"spec\":" + in_pod(R"("hostNetwork":true)") + "}")), "job.json");
  job::Installation installation{.pod_security = PodSecurity::kBaseline,
                                 .pod_security_doubt = "namespace a can't be read: 403 Forbidden"};
  EXPECT_EQ(job::validate(job, installation).at(0).message,
            "true is outside Pod Security `baseline` (namespace a can't be read: 403 Forbidden); "
            "remove it");
}

// What the operator adds to a pod may not meet a thing of the template's.
TEST(TemplateRules, refuse_what_collides_with_our_own_volumes) {
  check({
      {in_pod(R"("volumes":[{"name":"data","emptyDir":{}}])"), "volumes[0].name",
       PodSecurity::kPrivileged},
      {in_pod(R"("volumes":[{"name":"checkpoints","emptyDir":{}}])"), ""},
      {in_pod(R"("volumes":[{"name":"coxswain-run","emptyDir":{}}])"), "volumes[0].name",
       PodSecurity::kPrivileged},
      {in_container(R"("volumeMounts":[{"name":"data","mountPath":"/data"}])"),
       "containers[0].volumeMounts[0].mountPath", PodSecurity::kPrivileged},
      {in_container(R"("volumeMounts":[{"name":"data","mountPath":"/etc/coxswain"}])"),
       "containers[0].volumeMounts[0].mountPath", PodSecurity::kPrivileged},
      {in_container(R"("volumeMounts":[{"name":"data","mountPath":"/mine"}])"), ""},
      {in_container(R"("volumeMounts":[{"name":"data","mountPath":"/checkpoints"}])"), ""},
      {in_container(R"("volumeMounts":[{"name":"data","mountPath":"/data"}])", "initContainers"),
       ""},
  });
}

// More would not fit into one environment variable of a process.
TEST(Validation, refuses_a_tf_config_that_no_process_can_take) {
  const auto text = [](int workers, const char* frameworks) {
    return R"({"apiVersion":"coxswain.dev/v1alpha1","kind":"TrainingJob","metadata":{"name":"x"},
        "spec":{"rendezvous":[)" +
           std::string(frameworks) + R"(],"replicaSpecs":{"Worker":{"replicas":)" +
           std::to_string(workers) +
           R"(,"template":{"spec":{"containers":[{"name":"a","image":"b"}]}}}}}})";
  };
  EXPECT_EQ(refusals(text(4096, R"("TensorFlow")")), "spec.rendezvous");
  EXPECT_EQ(refusals(text(2048, R"("TensorFlow")")), "");
  EXPECT_EQ(refusals(text(4096, R"("PyTorch")")), "");
}

}  // namespace coxswain::test
