#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>

#include "operator/kube/client.h"

namespace coxswain::controller {

// Where an informer puts what it sees. Called on the informer's thread alone.
class ObjectSink {
 public:
  virtual ~ObjectSink() = default;
  virtual void begin_list() = 0;
  virtual void listed(const kube::Json& object) = 0;
  virtual void end_list(std::uint64_t version) = 0;  // the list is whole
  virtual void changed(const kube::Json& object) = 0;
  virtual void deleted(const kube::Json& object) = 0;
  virtual void progress(std::uint64_t version) = 0;  // a bookmark
};

struct InformerOptions {
  kube::ListQuery query;
  // Waiting between two failed tries: 0.8 s, doubled up to 30 s, a tenth of it random, as
  // client-go's reflector does.
  std::function<void(std::chrono::milliseconds, std::stop_token)> sleep;
  // What to tell of an error, once for each kind of error in a row.
  std::function<void(const kube::ApiError&)> on_error = [](const kube::ApiError&) {};
};

// Resource. List, then watch; list again after 410 and after what can't be trusted; watch on from
// the last version after everything else. States: Listing, Watching, BackingOff.
class Informer {
 public:
  Informer(kube::Client& client, kube::Resource resource, InformerOptions options,
           ObjectSink& sink);

  void run(std::stop_token stop);  // until asked to stop
  bool synced() const;             // the first list is whole
  // Blocks until synced; false: stopped before.
  bool wait_synced(std::stop_token stop) const;
};

}  // namespace coxswain::controller
