#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "operator/kube/transport.h"
#include "operator/kube/watch.h"

namespace coxswain::test {

// An API server that knows one Lease, with resource versions and optimistic updates.
class LeaseServer {
 public:
  using Time = std::chrono::nanoseconds;

  kube::Response handle(const kube::Request& request, Time now) {
    std::stable_sort(late_.begin(), late_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    while (!late_.empty() && late_.front().first <= now) {
      const kube::Request due = late_.front().second;
      late_.erase(late_.begin());
      apply(due);
    }
    return apply(request);
  }

  // A request that is still under way, and has its effect then.
  void handle_late(const kube::Request& request, Time when) { late_.emplace_back(when, request); }

  kube::Json object;  // null: none

 private:
  static kube::Response status(int code, const std::string& reason) {
    return {code, {}, kube::Json{{"kind", "Status"}, {"code", code}, {"reason", reason}}.dump()};
  }

  kube::Response apply(const kube::Request& request) {
    switch (request.method) {
      case kube::Method::kGet:
        if (object.is_null()) return status(404, "NotFound");
        break;
      case kube::Method::kPost:
        if (!object.is_null()) return status(409, "AlreadyExists");
        store(kube::Json::parse(request.body));
        break;
      default: {
        const kube::Json wanted = kube::Json::parse(request.body);
        if (object.is_null()) return status(404, "NotFound");
        if (wanted.at("metadata").at("resourceVersion") !=
            object.at("metadata").at("resourceVersion"))
          return status(409, "Conflict");
        store(wanted);
      }
    }
    return {200, {}, object.dump()};
  }

  void store(kube::Json wanted) {
    object = std::move(wanted);
    object["metadata"]["resourceVersion"] = std::to_string(++version_);
  }

  std::uint64_t version_ = 0;
  std::vector<std::pair<Time, kube::Request>> late_;
};

}  // namespace coxswain::test
