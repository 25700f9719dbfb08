#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace coxswain::kube {

using Json = nlohmann::json;

// Value. A kind of object as the paths of the API server name it.
struct Resource {
  std::string group;  // empty: core
  std::string version;
  std::string plural;
  std::string kind;
  bool operator==(const Resource&) const = default;
};

inline const Resource kPods{"", "v1", "pods", "Pod"};
inline const Resource kServices{"", "v1", "services", "Service"};
inline const Resource kSecrets{"", "v1", "secrets", "Secret"};
inline const Resource kConfigMaps{"", "v1", "configmaps", "ConfigMap"};
inline const Resource kEvents{"events.k8s.io", "v1", "events", "Event"};
inline const Resource kCoreEvents{"", "v1", "events", "Event"};  // the same, to be selected
inline const Resource kLeases{"coordination.k8s.io", "v1", "leases", "Lease"};

// Everything but letters, digits and "-._~" as %XX: for a part of a path or a query.
std::string percent_encoded(std::string_view text);

std::string api_version(const Resource& resource);  // "v1", "events.k8s.io/v1"

// "/api/v1/namespaces/NS/pods/NAME/SUBRESOURCE"; an empty name_space is all of them (or none, for
// what has no namespace), an empty name the collection. Each part is percent-encoded.
std::string path_of(const Resource& resource, const std::string& name_space,
                    const std::string& name = "", const std::string& subresource = "");

// Value. What every object has and our caches need.
struct ObjectMeta {
  std::string name_space;
  std::string name;
  std::string uid;
  std::uint64_t resource_version = 0;  // 0: none, or not a number
  std::string controller_uid;          // of the owner that is its controller; empty: none
  bool terminating = false;            // has a deletionTimestamp
  bool operator==(const ObjectMeta&) const = default;
};

// Never throws; what is missing or of another type reads as absent.
ObjectMeta meta_of(const Json& object);

// A resourceVersion as a number; 0: none, or not a number.
std::uint64_t version_number(const std::string& text);

// "NS/NAME"
std::string key_of(const ObjectMeta& meta);

}  // namespace coxswain::kube
