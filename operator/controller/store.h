#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "operator/kube/object.h"

namespace coxswain::controller {

// Resource. What was last seen of the objects of one kind: of each only a T. Filled by informers
// and by the answers to our own writes, in any order: an older version never overwrites a newer
// one, and what was seen deleted does not come back. Thread-safe.
template <class T>
class Store {
 public:
  struct Entry {
    kube::ObjectMeta meta;
    T value;
  };

  // From a watch, in the order of versions. True if it changed anything.
  bool put(const kube::ObjectMeta& meta, T value);
  bool remove(const kube::ObjectMeta& meta);

  // The answer to a write of ours, or to a GET. Ignored where the watch has already passed its
  // version: then the watch knows better (it may have been deleted since).
  bool put_answer(const kube::ObjectMeta& meta, T value);

  // A whole list of one namespace (empty: of all): what is not in it is gone, unless it is newer
  // than the list. Gives the keys of what changed, vanished ones too.
  std::vector<std::string> replace(const std::string& name_space, std::vector<Entry> entries,
                                   std::uint64_t version);

  // The watch of this namespace has seen everything up to here.
  void progress(const std::string& name_space, std::uint64_t version);
  std::uint64_t seen_version(const std::string& name_space) const;

  std::optional<Entry> find(const std::string& key) const;
  std::vector<Entry> owned_by(const std::string& controller_uid) const;
  std::size_t size() const;
};

}  // namespace coxswain::controller
