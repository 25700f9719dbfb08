#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "operator/job/observed.h"
#include "operator/kube/client.h"

namespace coxswain::cluster {

// PURE: the Pod Security level that a namespace's label asks for; nullopt: it has none. As its
// admission reads it, any other word is `restricted`.
std::optional<job::PodSecurity> level_of(const kube::Json& name_space);

// Resource. The levels of namespaces, each read at most once in kKeep. Thread-safe.
class NamespaceLevels {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kKeep{30};

  struct Answer {
    std::optional<job::PodSecurity> level;  // nullopt: no label, or not to be read
    std::string doubt;                      // why it can't be read
  };

  // `client` must outlive this. `unread` is told of each namespace that can't be read.
  NamespaceLevels(kube::Client& client, std::function<void(const std::string& doubt)> unread)
      : client_(client), unread_(std::move(unread)) {}

  // An error: nobody answers, so that it is to be asked again.
  kube::Result<Answer> find(const std::string& name, Time now);

 private:
  kube::Client& client_;
  std::function<void(const std::string&)> unread_;
  struct Known {
    Time read;
    Answer answer;
  };
  std::mutex mutex_;
  std::map<std::string, Known> known_;  // guarded by mutex_
};

}  // namespace coxswain::cluster
