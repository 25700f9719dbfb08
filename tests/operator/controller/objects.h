#pragma once

#include <cstdint>
#include <string>

#include "operator/kube/object.h"

namespace coxswain::test {

// Of a pod: meta("a/p", "uid-1", 7).
inline kube::ObjectMeta meta(const std::string& key, const std::string& uid, std::uint64_t version,
                             const std::string& controller_uid = "") {
  kube::ObjectMeta meta;
  const auto slash = key.find('/');
  meta.name_space = key.substr(0, slash);
  meta.name = key.substr(slash + 1);
  meta.uid = uid;
  meta.resource_version = version;
  meta.controller_uid = controller_uid;
  return meta;
}

inline kube::Json object(const std::string& key, const std::string& uid, std::uint64_t version) {
  const kube::ObjectMeta wanted = meta(key, uid, version);
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata",
           {{"namespace", wanted.name_space},
            {"name", wanted.name},
            {"uid", uid},
            {"resourceVersion", std::to_string(version)}}}};
}

}  // namespace coxswain::test
