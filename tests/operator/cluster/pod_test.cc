#include "operator/cluster/pod.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "operator/cluster/base64.h"
#include "operator/job/worker_spec.h"
#include "tests/operator/cluster/pod_fixtures.h"
#include "trainer/contract/worker/worker_env.h"

namespace coxswain::test {

namespace {

using job::Json;
using job::Role;

constexpr job::WorkerId kFirst{Role::kWorker, 0, 1};
constexpr job::WorkerId kSecond{Role::kWorker, 1, 1};

const Json& spec_at(const Json& pod, const char* pointer) {
  return pod.at("spec").at(Json::json_pointer(pointer));
}

std::set<std::string> values(const Json& list, const char* key) {
  std::set<std::string> found;
  for (const Json& each : list) EXPECT_TRUE(found.insert(each.at(key)).second) << list;
  return found;
}

}  // namespace

TEST(Pod, labels_and_annotations_of_the_template_stay_where_they_are_not_ours) {
  const Json pod = cluster::pod(job_of(kForeignJob), kFirst);
  EXPECT_EQ(pod["metadata"]["labels"]["team"], "vision");
  EXPECT_EQ(pod["metadata"]["labels"]["coxswain.dev/attempt"], "1");
  EXPECT_EQ(pod["metadata"]["annotations"]["sidecar.istio.io/inject"], "false");
  EXPECT_EQ(pod["metadata"]["annotations"]["kubectl.kubernetes.io/default-container"], "pytorch");
}

TEST(Pod, our_environment_comes_first_so_that_a_template_may_refer_to_it) {
  const Json pod = cluster::pod(job_of(kForeignJob), kSecond);
  const Json& env = spec_at(pod, "/containers/0/env");
  EXPECT_EQ(env.front()["name"], "COXSWAIN_ATTEMPT");
  EXPECT_EQ(env.back(), Json({{"name", "EPOCHS"}, {"value", "90"}}));
  EXPECT_EQ(spec_at(pod, "/containers/0/args"), Json({"--rank=$(PET_NODE_RANK)"}));
  values(env, "name");
}

TEST(Pod, our_environment_stands_against_the_templates) {
  const auto job =
      with_pod(R"({"containers":[{"name":"a","env":[{"name":"COXSWAIN_INDEX","value":"9"}]}]})");
  const Json pod = cluster::pod(job, kSecond);
  for (const Json& variable : spec_at(pod, "/containers/0/env"))
    EXPECT_TRUE(variable["name"] != "COXSWAIN_INDEX" || variable["value"] == "1");
  values(spec_at(pod, "/containers/0/env"), "name");
}

// A variable of `env` stands against one of `envFrom`, whose names nobody can see here.
TEST(Pod, our_environment_stands_against_references_too) {
  const auto job =
      with_pod(R"({"containers":[{"name":"a","envFrom":[{"secretRef":{"name":"s"}}]}]})");
  const Json pod = cluster::pod(job, kSecond);
  std::map<std::string, std::string> found;
  for (const Json& variable : spec_at(pod, "/containers/0/env"))
    found[variable["name"]] = variable["value"];
  for (const std::string& name : contract::worker_env_names())
    EXPECT_TRUE(found.contains(name)) << name;
  EXPECT_EQ(found.at("COXSWAIN_INDEX"), "1");
  EXPECT_EQ(found.at("COXSWAIN_CHECKPOINTS"), "") << "worker 0 alone has them";
  EXPECT_EQ(found.at("LD_PRELOAD"), "");
  EXPECT_FALSE(found.contains("NCCL_COMM_ID"));
}

TEST(Pod, the_templates_image_stands_before_the_jobs) {
  EXPECT_EQ(spec_at(cluster::pod(job_of(kForeignJob), kFirst), "/containers/0/image"),
            "registry.example/ddp:1");
  EXPECT_EQ(spec_at(cluster::pod(with_pod(R"({"containers":[{"name":"a"}]})"), kFirst),
                    "/containers/0/image"),
            "coxswain/trainer-cpu");
}

// Who breaks into a worker finds no key to the others, unless it is the one that runs mpirun.
TEST(Pod, holds_the_keys_of_its_own_part_alone) {
  const auto keys_of = [](const job::TrainingJob& job, const job::WorkerId& id) {
    std::string keys;
    const Json pod = cluster::pod(job, id);
    for (const Json& volume : spec_at(pod, "/volumes"))
      if (volume.contains("projected"))
        for (const Json& source : volume["projected"]["sources"])
          if (source.contains("secret"))
            for (const std::string& key : values(source["secret"]["items"], "key"))
              keys += key + " ";
    return keys;
  };
  auto env = job_of(kMpiJob);
  env.spec.launcher = job::Launcher::kEnv;
  EXPECT_EQ(keys_of(job_of(kMpiJob), kFirst),
            "authorized_keys id_ecdsa known_hosts ssh_host_ecdsa_key ");
  EXPECT_EQ(keys_of(job_of(kMpiJob), kSecond), "authorized_keys ssh_host_ecdsa_key ");
  EXPECT_EQ(keys_of(job_of(kServersJob), {Role::kServer, 0, 1}), "server_key ");
  EXPECT_EQ(keys_of(env, kFirst), "server_key ");
  EXPECT_EQ(keys_of(job_of(kForeignJob), kFirst), "");
}

TEST(Pod, is_ready_when_its_ranks_are_in_training) {
  const char* own = R"({"containers":[{"name":"a","command":["train"]}]})";
  auto env = job_of(kMpiJob);
  env.spec.launcher = job::Launcher::kEnv;
  auto mpi_own = with_pod(own, false);
  mpi_own.spec.launcher = job::Launcher::kMpi;
  struct Row {
    const char* what;
    job::TrainingJob job;
    job::WorkerId id;
    const char* probe;  // null: none
  };
  const Row rows[] = {
      {"worker 0 of MPI", job_of(kMpiJob), kFirst, "httpGet"},
      {"a serving worker", job_of(kMpiJob), kSecond, "tcpSocket"},
      {"worker 0 of Env with training", env, kFirst, "httpGet"},
      {"another one", env, kSecond, nullptr},
      {"MPI with an own command", mpi_own, kFirst, "tcpSocket"},
      {"a foreign program", with_pod(own, false), kFirst, nullptr},
      {"a server", job_of(kServersJob), {Role::kServer, 0, 1}, "httpGet"},
  };
  for (const auto& [what, job, id, probe] : rows) {
    const Json container = spec_at(cluster::pod(job, id), "/containers/0");
    ASSERT_EQ(container.contains("readinessProbe"), probe != nullptr) << what;
    EXPECT_TRUE(!probe || container["readinessProbe"].contains(probe)) << what;
  }
}

TEST(Pod, tolerates_lost_nodes_for_30_s_unless_the_template_says) {
  const std::pair<const char*, std::size_t> rows[] = {
      {R"([])", 2},
      {R"([{"operator":"Exists"}])", 1},
      {R"([{"key":"node.kubernetes.io/not-ready","operator":"Exists"}])", 2},
      {R"([{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoSchedule"}])", 3},
      {R"([{"key":"gpu","operator":"Exists"}])", 3},
  };
  for (const auto& [tolerations, count] : rows) {
    auto job = with_pod(R"({"containers":[{"name":"a"}]})");
    job.spec.worker.pod_template["spec"]["tolerations"] = Json::parse(tolerations);
    EXPECT_EQ(spec_at(cluster::pod(job, kFirst), "/tolerations").size(), count) << tolerations;
  }
}

TEST(Pod, requires_other_nodes_than_those_to_avoid_in_each_term_of_the_template) {
  auto job = with_pod(R"({"containers":[{"name":"a"}]})");
  job.status.avoid_nodes = {"n1", "n2"};
  const Json fields = Json::parse(R"([
      {"key":"metadata.name","operator":"NotIn","values":["n1"]},
      {"key":"metadata.name","operator":"NotIn","values":["n2"]}])");
  const char* terms =
      "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution"
      "/nodeSelectorTerms";
  EXPECT_EQ(spec_at(cluster::pod(job, kFirst), terms), Json::array({{{"matchFields", fields}}}));
  const Json zone = Json::parse(R"([{"key":"zone","operator":"In","values":["a"]}])");
  job.spec.worker.pod_template["spec"][Json::json_pointer(terms)] =
      Json::array({{{"matchExpressions", zone}}, Json::object()});
  EXPECT_EQ(spec_at(cluster::pod(job, kFirst), terms),
            Json::array({{{"matchExpressions", zone}, {"matchFields", fields}}, Json::object()}));
}

TEST(Pod, mounts_each_volume_and_each_place_once) {
  const auto job = with_pod(R"({"containers":[{"name":"trainer","volumeMounts":[
        {"name":"mine","mountPath":"/data"},{"name":"big","mountPath":"/dev/shm"}]}],
      "volumes":[{"name":"coxswain-files","emptyDir":{}},{"name":"data","emptyDir":{}},
        {"name":"big","emptyDir":{}},{"name":"mine","emptyDir":{}}]})");
  const Json pod = cluster::pod(job, kFirst);
  const auto volumes = values(spec_at(pod, "/volumes"), "name");
  const auto places = values(spec_at(pod, "/containers/0/volumeMounts"), "mountPath");
  EXPECT_EQ(volumes, (std::set<std::string>{"big", "checkpoints", "coxswain-files", "coxswain-run",
                                            "data", "mine"}));
  EXPECT_EQ(places, (std::set<std::string>{"/checkpoints", "/data", "/dev/shm", "/etc/coxswain",
                                           "/run/coxswain"}));
}

TEST(Pod, keys_are_where_our_programs_need_them) {
  const auto has_secret = [](const Json& pod) {
    return pod.dump().find("-keys-5f0c3a9e") != std::string::npos;
  };
  auto env = job_of(kMpiJob);
  env.spec.launcher = job::Launcher::kEnv;
  EXPECT_TRUE(has_secret(cluster::pod(job_of(kMpiJob), kSecond)));
  EXPECT_TRUE(has_secret(cluster::pod(job_of(kServersJob), {Role::kServer, 0, 1})));
  EXPECT_TRUE(has_secret(cluster::pod(env, kFirst)));
  EXPECT_FALSE(has_secret(cluster::pod(job_of(kForeignJob), kFirst)));
}

TEST(Pod, contradicts_no_template_that_the_chart_lets_through) {
  const auto job = with_pod(R"({"securityContext":{"runAsUser":0},"containers":[
      {"name":"trainer","securityContext":{"privileged":true}},
      {"name":"b","securityContext":{"runAsUser":0,"capabilities":{"drop":[]}}}]})");
  const Json pod = cluster::pod(job, kFirst);
  EXPECT_EQ(spec_at(pod, "/securityContext/runAsNonRoot"), false);
  EXPECT_EQ(spec_at(pod, "/containers/0/securityContext"), Json({{"privileged", true}}));
  EXPECT_EQ(spec_at(pod, "/containers/1/securityContext/runAsNonRoot"), false);
  EXPECT_EQ(spec_at(pod, "/containers/1/securityContext/capabilities/drop"), Json::array());
}

TEST(Pod, runs_as_our_user_where_ssh_or_our_image_needs_it) {
  const char* foreign = R"({"containers":[{"name":"a","image":"theirs","command":["train"]}]})";
  auto mpi = with_pod(foreign, false);
  mpi.spec.launcher = job::Launcher::kMpi;
  struct Row {
    const char* what;
    job::TrainingJob job;
    bool ours;
  };
  const Row rows[] = {
      {"no template", job_of(kMpiJob), true},
      {"MPI with an own command", mpi, true},
      {"our image with an own command", with_pod(R"({"containers":[{"name":"a"}]})", false), true},
      {"a foreign image", with_pod(foreign, false), false},
  };
  for (const auto& [what, job, ours] : rows) {
    const Json context = spec_at(cluster::pod(job, kFirst), "/securityContext");
    for (const char* id : {"runAsUser", "runAsGroup", "fsGroup"})
      EXPECT_EQ(context.value(id, 0), ours ? 10001 : 0) << what << " " << id;
    EXPECT_EQ(context["runAsNonRoot"], true) << what;
  }
}

// Its user is not known here, so that nothing but the mode lets it read them.
TEST(Pod, a_foreign_image_can_read_its_files) {
  const auto mode = [](const Json& pod) {
    for (const Json& volume : pod["spec"]["volumes"])
      if (volume["name"] == "coxswain-files") return volume["projected"]["defaultMode"].get<int>();
    return 0;
  };
  EXPECT_EQ(mode(cluster::pod(job_of(kForeignJob), kFirst)), 0444);
  EXPECT_EQ(mode(cluster::pod(job_of(kMpiJob), kFirst)), 0440) << "with keys";
}

TEST(Pod, on_the_hosts_network_keeps_to_the_ports_of_its_attempt) {
  auto job = with_pod(R"({"hostNetwork":true,"containers":[{"name":"a",
      "resources":{"limits":{"rdma/hca":1}},"securityContext":{"capabilities":{"add":["IPC_LOCK"]}},
      "volumeMounts":[{"name":"ib","mountPath":"/dev/infiniband"}]}],
      "volumes":[{"name":"ib","hostPath":{"path":"/dev/infiniband"}}]})");
  job.status.host_port = 20040;
  const Json pod = cluster::pod(job, kFirst);
  EXPECT_EQ(spec_at(pod, "/dnsPolicy"), "ClusterFirstWithHostNet");
  const Json& container = spec_at(pod, "/containers/0");
  EXPECT_EQ(container["ports"], Json::parse(R"([
      {"containerPort":20040,"hostPort":20040,"protocol":"TCP"},
      {"containerPort":20041,"hostPort":20041,"protocol":"TCP"}])"));
  EXPECT_EQ(container["readinessProbe"]["httpGet"]["port"], 20041);
  EXPECT_EQ(spec_at(cluster::pod(job, kSecond), "/containers/0/readinessProbe/tcpSocket/port"),
            20040);
  auto env = job;
  env.spec.launcher = job::Launcher::kEnv;
  env.spec.slots_per_worker = 2;
  EXPECT_EQ(spec_at(cluster::pod(env, kSecond), "/containers/0/ports"), Json::parse(R"([
      {"containerPort":20044,"hostPort":20044,"protocol":"TCP"},
      {"containerPort":20045,"hostPort":20045,"protocol":"TCP"},
      {"containerPort":20041,"hostPort":20041,"protocol":"TCP"}])"));
  EXPECT_EQ(container["resources"]["limits"]["rdma/hca"], 1);
  EXPECT_EQ(container["securityContext"]["capabilities"]["add"], Json({"IPC_LOCK"}));
  EXPECT_EQ(spec_at(pod, "/volumes/0/hostPath/path"), "/dev/infiniband");
  EXPECT_FALSE(cluster::pod(with_pod(R"({"containers":[{"name":"a"}]})"), kFirst)["spec"].contains(
      "dnsPolicy"));
}

// What it runs is the server's: MXNet's variables tell a process what it is. On one host's network
// it, a server and a worker can stand side by side.
TEST(Pod, of_mxnets_scheduler_is_one_more_of_its_servers) {
  auto job = with_pod(R"({"hostNetwork":true,"containers":[{"name":"a","command":["serve"]}]})");
  job.spec.training.reset();
  job.spec.strategy = job::Strategy::kParameterServer;
  job.spec.server = job::ReplicaSpec{1, job.spec.worker.pod_template};
  job.spec.rendezvous = {job::Framework::kMxnet};
  job.status.host_port = 20040;
  const Json pod = cluster::pod(job, {Role::kScheduler, 0, 1});
  EXPECT_EQ(pod["metadata"]["labels"]["training.kubeflow.org/replica-type"], "scheduler");
  EXPECT_EQ(spec_at(pod, "/containers/0/command"), Json({"serve"}));
  std::set<int> ports;
  for (const Role role : {Role::kWorker, Role::kServer, Role::kScheduler}) {
    const Json other = cluster::pod(job, {role, 0, 1});
    const Json environment = spec_at(other, "/containers/0/env");
    const Json told = {{"name", "DMLC_ROLE"}, {"value", contract::to_text(role)}};
    EXPECT_NE(std::ranges::find(environment, told), environment.end()) << environment;
    for (const Json& port : spec_at(other, "/containers/0/ports"))
      EXPECT_TRUE(ports.insert(port["hostPort"].get<int>()).second) << port;
  }
}

// Templates are checked before a gang is made; one that changed since must not stop the operator.
TEST(Pod, takes_any_json_in_a_template) {
  const job::TrainingJob whole = job_of(kSidecarJob);
  const Json odd[] = {
      nullptr, true, -1, 1e300, "text", Json::array(), Json::object(), Json::array({nullptr})};
  const Json leaves = whole.spec.worker.pod_template.flatten();
  int places = 0;
  for (const auto& [path, value] : leaves.items()) {
    for (Json::json_pointer place(path);; place = place.parent_pointer()) {
      for (const Json& other : odd) {
        job::TrainingJob job = whole;
        job.spec.worker.pod_template[place] = other;
        const Json pod = cluster::pod(job, kFirst);
        EXPECT_EQ(pod["spec"]["hostname"], "sidecar-worker-0") << place << " " << other;
        cluster::pod_group(job);
        ++places;
      }
      if (place.empty()) break;
    }
  }
  EXPECT_GT(places, 1000);
}

}  // namespace coxswain::test
