#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include "operator/kube/object.h"
#include "operator/kube/result.h"
#include "operator/kube/transport.h"
#include "operator/kube/watch.h"

namespace coxswain::kube {

double any_random();  // [0, 1). Thread-safe.

// What decides besides the API server's answers; simulations pass their own.
struct Clock {
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
  std::function<std::chrono::system_clock::time_point()> wall = std::chrono::system_clock::now;
  std::function<double()> random = any_random;
};

// One request as it went, for metrics.
struct Call {
  Method method = Method::kGet;
  std::string resource;  // plural, with "/status" and the like
  int code = 0;
  std::chrono::microseconds duration{0};
};

struct ClientOptions {
  // Asked before each request that changes something: after false it is not sent, and answered
  // with code 0, reason NotLeader. For those who lost their lease.
  std::function<bool()> may_write = [] { return true; };
  std::function<void(const Call&)> on_call = [](const Call&) {};
  Clock clock = {};
  // How the client waits between two tries; tests pass their own.
  std::function<void(std::chrono::milliseconds)> sleep;
  // How long one try may take; asked before each.
  std::function<std::chrono::milliseconds()> deadline = [] {
    return std::chrono::milliseconds(10'000);
  };
  LeftOut left_out = {};  // of every object that comes in
  int tries = 4;  // 429 and 5xx, and no answer; at most 30 s in all, the server's Retry-After kept
};

struct DeletePreconditions {
  std::string uid;               // always
  std::string resource_version;  // empty: any
  std::optional<std::chrono::seconds> grace;
};

struct ListQuery {
  std::string name_space;  // empty: all
  std::string label_selector;
  std::string field_selector = {};
  int page_size = 500;
};

// How much of an object the answer to its creation has; metadata alone spares both sides work.
enum class Extent { kWhole, kMetadata };

// How a watch ended. `expired`: list anew; else go on from the last version seen.
struct WatchEnd {
  bool expired = false;  // 410, in the stream or as a status; or what came can't be trusted
  std::optional<ApiError> error;  // none: the server ended it in its time
};

// Talks to the API server over a transport: paths, retries, errors. Thread-safe. A call repeated
// after no answer may meet its own effect (409 on create, 404 on delete): callers must take that.
class Client {
 public:
  explicit Client(Transport& transport, ClientOptions options = {});

  Result<Json> get(const Resource& resource, const std::string& name_space,
                   const std::string& name);
  Result<Json> create(const Resource& resource, const std::string& name_space, const Json& object,
                      Extent answer = Extent::kWhole);
  Result<Json> update(const Resource& resource, const std::string& name_space,
                      const std::string& name, const Json& object);
  // JSON merge patch (RFC 7386) of the object or its subresource.
  Result<Json> patch(const Resource& resource, const std::string& name_space,
                     const std::string& name, const std::string& subresource, const Json& patch);
  // The object as it is now terminating, or a Status if it is gone.
  Result<Json> remove(const Resource& resource, const std::string& name_space,
                      const std::string& name, const DeletePreconditions& preconditions);

  // What is text, not an object, as the path and query `target` give it: the log of a pod, or what
  // a pod's own server answers. A stream, so it may be long; `silence` ends one that says nothing.
  // nullopt: it came to its end, or to `on_data`'s false or to `stop`. Not tried again.
  std::optional<ApiError> read(const std::string& target, std::chrono::milliseconds silence,
                               std::stop_token stop,
                               const std::function<bool(std::string_view piece)>& on_data);

  // Hands every object to `on_item`, page by page, one at a time in memory; gives the version to
  // watch from. An expired page begins the list anew, after `on_anew`: what came before may be
  // gone. A page that is too long is asked for anew with fewer objects. kind and apiVersion, which
  // items lack, are filled in.
  Result<std::string> list(
      const Resource& resource, const ListQuery& query,
      const std::function<void(Json item)>& on_item, const std::function<void()>& on_anew = [] {});

  // Blocks until the watch ends. Bookmarks are asked for, the server is asked to end it after 50 s,
  // and 60 s without a byte count as broken: a half-open connection is noticed.
  WatchEnd watch(const Resource& resource, const ListQuery& query, const std::string& version,
                 std::stop_token stop, const std::function<void(const WatchEvent&)>& on_event);

 private:
  Result<Json> call(Request request, const std::string& resource);
  // The 2xx answer, or why there is none after all tries.
  Result<Response> send(Request request, const std::string& resource);

  Transport& transport_;
  ClientOptions options_;
};

}  // namespace coxswain::kube
