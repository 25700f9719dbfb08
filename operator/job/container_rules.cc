#include <fmt/format.h>

#include <cmath>
#include <set>

#include "operator/job/amounts.h"
#include "operator/job/json_fields.h"
#include "operator/job/quantity.h"
#include "operator/job/validation.h"
#include "trainer/contract/config/text.h"

// What a pod's containers say about each other, its volumes and its resources.
// https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/apis/core/validation/validation.go
namespace coxswain::job {

namespace {

constexpr std::string_view kHugePages = "hugepages-";

bool is_true(const Json& owner, const char* key) { return member(owner, key) == true; }

int port_at(const Json& port, const char* key) {
  const Json& value = member(port, key);
  return value.is_number_integer() ? value.get<int>() : 0;
}

bool is_of_pod(const std::string& name) {
  return name == "cpu" || name == "memory" || name.starts_with(kHugePages);
}

std::set<std::string> texts_of(const Json& list, const char* key) {
  std::set<std::string> texts;
  for (const Json& entry : list) texts.insert(text_at(entry, key));
  return texts;
}

class ContainerCheck {
 public:
  ContainerCheck(const Json& spec, const std::string& path, std::vector<Problem>& problems)
      : spec_(spec),
        path_(path),
        problems_(problems),
        volumes_(texts_of(list_at(spec, "volumes"), "name")),
        claims_(texts_of(list_at(spec, "resourceClaims"), "name")) {
    for (const Json& volume : list_at(spec, "volumes"))
      if (find(volume, "persistentVolumeClaim") || find(volume, "ephemeral"))
        disks_.insert(text_at(volume, "name"));
  }

  void check_all() {
    std::set<std::string> names;
    std::set<std::string> host_ports;
    for (const char* list : {"containers", "initContainers"})
      for (std::size_t i = 0; i < list_at(spec_, list).size(); ++i) {
        const Json& container = list_at(spec_, list)[i];
        const std::string path = fmt::format("{}.{}[{}]", path_, list, i);
        if (!container.is_object()) continue;
        const bool runs_alone = std::string_view(list) == "initContainers";
        if (runs_alone) host_ports.clear();
        if (!names.insert(text_at(container, "name")).second && runs_alone)
          refuse(path + ".name",
                 "a second container named " + contract::quote(text_at(container, "name")));
        check_one(container, path);
        check_ports(container, path, host_ports);
      }
    check_resources(spec_, path_);
    check_sum();
  }

 private:
  void refuse(const std::string& path, std::string message) {
    problems_.push_back({path, 0, std::move(message)});
  }

  void check_one(const Json& container, const std::string& path) {
    check_resources(container, path);
    check_devices(container, path);
    if (is_true(member(container, "securityContext"), "privileged")) return;
    const Json& mounts = list_at(container, "volumeMounts");
    for (std::size_t i = 0; i < mounts.size(); ++i)
      if (text_at(mounts[i], "mountPropagation") == "Bidirectional")
        refuse(fmt::format("{}.volumeMounts[{}].mountPropagation", path, i),
               "Bidirectional needs a privileged container");
  }

  void check_ports(const Json& container, const std::string& path, std::set<std::string>& taken) {
    std::set<std::string> names;
    const bool on_host = is_true(spec_, "hostNetwork");
    const Json& ports = list_at(container, "ports");
    for (std::size_t i = 0; i < ports.size(); ++i) {
      const std::string place = fmt::format("{}.ports[{}]", path, i);
      const std::string name = text_at(ports[i], "name");
      if (!name.empty() && !names.insert(name).second)
        refuse(place + ".name", "a second port named " + contract::quote(name));
      const int inner = port_at(ports[i], "containerPort");
      const int outer = port_at(ports[i], "hostPort");
      if (on_host && outer != 0 && outer != inner)
        refuse(place + ".hostPort", "must be the containerPort with hostNetwork; leave it out");
      const int used = on_host ? inner : outer;
      const std::string protocol = text_at(ports[i], "protocol");
      const std::string host_port = fmt::format("{}/{}/{}", protocol.empty() ? "TCP" : protocol,
                                                text_at(ports[i], "hostIP"), used);
      if (used != 0 && !taken.insert(host_port).second)
        refuse(place + ".hostPort", fmt::format("a second one of {}", used));
    }
  }

  // A volume's own disk, which no container mounts.
  void check_devices(const Json& container, const std::string& path) {
    const Json& devices = list_at(container, "volumeDevices");
    const Json& mounts = list_at(container, "volumeMounts");
    const auto mounted = texts_of(mounts, "name");
    const auto places = texts_of(mounts, "mountPath");
    for (std::size_t i = 0; i < devices.size(); ++i) {
      const std::string place = fmt::format("{}.volumeDevices[{}]", path, i);
      const std::string name = text_at(devices[i], "name");
      if (!volumes_.contains(name))
        refuse(place + ".name", "no volume of this name: " + contract::quote(name));
      else if (!disks_.contains(name))
        refuse(place + ".name", "must be a persistentVolumeClaim or an ephemeral volume");
      if (mounted.contains(name))
        refuse(place + ".name", "is in volumeMounts, too: one of the two");
      if (places.contains(text_at(devices[i], "devicePath")))
        refuse(place + ".devicePath", "is in volumeMounts, too: another place");
    }
  }

  // Of a container, or of a whole pod.
  void check_resources(const Json& owner, const std::string& owner_path) {
    const Json& resources = member(owner, "resources");
    const std::string path = owner_path + ".resources";
    const Json& limits = member(resources, "limits");
    bool huge = false;
    bool plain = false;
    for (const char* kind : {"limits", "requests"})
      for (const auto& [name, value] : member(resources, kind).items()) {
        huge |= name.starts_with(kHugePages);
        plain |= name == "cpu" || name == "memory";
        const std::string place = fmt::format("{}.{}.{}", path, kind, name.substr(0, 80));
        if (&owner != &spec_)
          check_amount(name, value, limits, place);
        else if (!is_of_pod(name))
          refuse(place, "not a resource of a whole pod: cpu, memory or hugepages-SIZE");
      }
    if (huge && !plain) refuse(path, "huge pages need cpu or memory beside them");
    const Json& claims = list_at(resources, "claims");
    for (std::size_t i = 0; i < claims.size(); ++i)
      if (!claims_.contains(text_at(claims[i], "name")))
        refuse(fmt::format("{}.claims[{}].name", path, i), "not in the pod's resourceClaims");
  }

  // Beyond cpu and memory things come in wholes, and can't be promised twice.
  void check_amount(const std::string& name, const Json& value, const Json& limits,
                    const std::string& path) {
    const bool huge_pages = name.starts_with(kHugePages);
    if (name == "cpu" || name == "memory") return;
    if (name == "ephemeral-storage" || name.find("kubernetes.io/") != std::string::npos) return;
    if (!is_qualified_name(name) || name.starts_with("requests.") ||
        (name.find('/') == std::string::npos && !huge_pages))
      return refuse(path,
                    "not a resource of a container: cpu, memory, ephemeral-storage, or with a "
                    "domain, as nvidia.com/gpu");
    const double unit = huge_pages ? parse_quantity(name.substr(kHugePages.size())).value_or(0) : 1;
    const auto amount = quantity_of(value);
    if (unit < 1 || unit != std::floor(unit))
      return refuse(path, "not a size of huge pages, as hugepages-2Mi");
    if (amount && std::fmod(*amount, unit) != 0)
      refuse(path, huge_pages ? "must be a multiple of the page's size, got " + describe(value)
                              : "must be a whole number, got " + describe(value));
    if (!limits.contains(name) || quantity_of(limits.at(name)) != amount)
      refuse(path, "must have a limit of the same amount: it can't be shared");
  }

  // What the whole pod is given must do for its containers.
  void check_sum() {
    const Json& resources = member(spec_, "resources");
    const Amounts limits = amounts_of(member(resources, "limits"));
    const Amounts given = amounts_of(member(resources, "requests"));
    Amounts asked = requests_of_containers(spec_);
    const Json& containers = list_at(spec_, "containers");
    for (std::size_t i = 0; i < containers.size(); ++i)
      for (const auto& [name, amount] :
           amounts_of(member(member(containers[i], "resources"), "limits")))
        if (limits.contains(name) && amount > limits.at(name))
          refuse(fmt::format("{}.containers[{}].resources.limits.{}", path_, i, name),
                 "above the limit of the whole pod");
    for (const auto& [name, amount] : given) {
      const std::string place = path_ + ".resources.requests." + name;
      if (asked[name] > amount) refuse(place, "below what its containers request in all");
      if (limits.contains(name) && amount > limits.at(name)) refuse(place, "above its limit");
    }
  }

  const Json& spec_;
  const std::string& path_;
  std::vector<Problem>& problems_;
  std::set<std::string> volumes_;
  std::set<std::string> disks_;  // of them, those that can be devices
  std::set<std::string> claims_;
};

}  // namespace

void check_pod_containers(const Json& spec, const std::string& path,
                          std::vector<Problem>& problems) {
  ContainerCheck(spec, path, problems).check_all();
}

}  // namespace coxswain::job
