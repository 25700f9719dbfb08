#pragma once

#include <algorithm>
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
//
// One informer watches one namespace, or one watches all: replace() says which, and put(), remove()
// and seen_version() then find the watch that their namespace belongs to.
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

  // An answer said that the object with this uid is gone, whatever the watch has still to tell of
  // it. Unlike remove() it says nothing of how far the watch is.
  bool remove_answer(const kube::ObjectMeta& meta);

  // A whole list of one namespace (empty: of all): what is not in it is gone, unless it is newer
  // than the list. Gives what changed, as it was (if it was there) and as it is (if it is there).
  std::vector<Entry> replace(const std::string& name_space, std::vector<Entry> entries,
                             std::uint64_t version);

  // The watch of this namespace has seen everything up to here.
  void progress(const std::string& name_space, std::uint64_t version);
  std::uint64_t seen_version(const std::string& name_space) const;  // 0: nothing yet

  std::optional<Entry> find(const std::string& key) const;
  std::vector<Entry> owned_by(const std::string& controller_uid) const;  // by key
  std::vector<Entry> entries() const;                                    // by key
  std::size_t size() const;

 private:
  // An object that an answer told us is gone, before the watch did.
  struct Gone {
    kube::ObjectMeta meta;  // as it was last known; its end is newer
    // Of it, or of what had its name before.
    bool covers(const kube::ObjectMeta& other) const {
      return other.uid == meta.uid || other.resource_version <= meta.resource_version;
    }
  };

  // All are called with mutex_ held.
  std::string watch_of(const std::string& name_space) const;
  bool enter(const kube::ObjectMeta& meta, T value, bool passed);
  static bool ends(const kube::ObjectMeta& deleted, const kube::ObjectMeta& stored);
  void erase(typename std::map<std::string, Entry>::iterator entry);

  mutable std::mutex mutex_;  // guards all below
  std::map<std::string, Entry> entries_;
  std::map<std::string, std::set<std::string>> owned_;  // keys by uid of their controller
  std::map<std::string, Gone> gone_;                    // until the watch or a list says so too
  std::map<std::string, std::uint64_t> seen_;           // by namespace watched, "": all
};

template <class T>
bool Store<T>::put(const kube::ObjectMeta& meta, T value) {
  const std::lock_guard lock(mutex_);
  std::uint64_t& seen = seen_[watch_of(meta.name_space)];
  // A repeated event of an object that is gone by now.
  const bool passed = meta.resource_version < seen;
  seen = std::max(seen, meta.resource_version);
  return enter(meta, std::move(value), passed);
}

template <class T>
bool Store<T>::put_answer(const kube::ObjectMeta& meta, T value) {
  const std::lock_guard lock(mutex_);
  const auto seen = seen_.find(watch_of(meta.name_space));
  const bool passed = seen != seen_.end() && meta.resource_version <= seen->second;
  return enter(meta, std::move(value), passed);
}

// `passed`: the watch has told everything up to this version, so an absent object is gone.
template <class T>
bool Store<T>::enter(const kube::ObjectMeta& meta, T value, bool passed) {
  const std::string key = kube::key_of(meta);
  const auto gone = gone_.find(key);
  if (gone != gone_.end() && gone->second.covers(meta)) return false;
  const auto present = entries_.find(key);
  if (present == entries_.end() && passed) return false;
  if (present != entries_.end()) {
    if (present->second.meta.resource_version >= meta.resource_version) return false;
    erase(present);
  }
  if (!meta.controller_uid.empty()) owned_[meta.controller_uid].insert(key);
  entries_.emplace(key, Entry{meta, std::move(value)});
  return true;
}

template <class T>
bool Store<T>::remove(const kube::ObjectMeta& meta) {
  const std::lock_guard lock(mutex_);
  std::uint64_t& seen = seen_[watch_of(meta.name_space)];
  seen = std::max(seen, meta.resource_version);
  const std::string key = kube::key_of(meta);
  const auto gone = gone_.find(key);
  if (gone != gone_.end() && ends(meta, gone->second.meta)) gone_.erase(gone);
  const auto present = entries_.find(key);
  if (present == entries_.end() || !ends(meta, present->second.meta)) return false;
  erase(present);
  return true;
}

// The end of one object is also that of what had its name before, not of what took it later.
template <class T>
bool Store<T>::ends(const kube::ObjectMeta& deleted, const kube::ObjectMeta& stored) {
  return stored.uid == deleted.uid || stored.resource_version < deleted.resource_version;
}

template <class T>
bool Store<T>::remove_answer(const kube::ObjectMeta& meta) {
  const std::lock_guard lock(mutex_);
  if (meta.uid.empty()) return false;
  const std::string key = kube::key_of(meta);
  Gone gone{meta};
  const auto present = entries_.find(key);
  const bool is_there = present != entries_.end();
  if (is_there) {
    const kube::ObjectMeta& stored = present->second.meta;
    if (!ends(meta, stored)) return false;
    gone.meta.resource_version = std::max(meta.resource_version, stored.resource_version);
    erase(present);
  }
  const auto known = gone_.find(key);
  const bool is_known = known != gone_.end() && known->second.covers(gone.meta);
  const auto seen = seen_.find(watch_of(meta.name_space));
  const bool passed = seen != seen_.end() && meta.resource_version <= seen->second;
  if (!is_known && (is_there || !passed)) gone_[key] = std::move(gone);
  return is_there;
}

template <class T>
std::vector<typename Store<T>::Entry> Store<T>::replace(const std::string& name_space,
                                                        std::vector<Entry> entries,
                                                        std::uint64_t version) {
  const auto in_scope = [&](const std::string& name) {
    return name_space.empty() || name_space == name;
  };
  std::set<std::string> keys;
  for (const Entry& entry : entries) keys.insert(kube::key_of(entry.meta));
  std::vector<Entry> changed;
  const std::lock_guard lock(mutex_);
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto present = entry++;
    const kube::ObjectMeta& meta = present->second.meta;
    if (!in_scope(meta.name_space) || keys.contains(present->first)) continue;
    if (meta.resource_version > version) continue;
    changed.push_back(present->second);
    erase(present);
  }
  for (Entry& entry : entries) {
    const auto present = entries_.find(kube::key_of(entry.meta));
    std::optional<Entry> before;
    if (present != entries_.end()) before = present->second;
    if (!enter(entry.meta, entry.value, /*passed=*/false)) continue;
    if (before) changed.push_back(std::move(*before));
    changed.push_back(std::move(entry));
  }
  // What the list does not show and is older than it will not be told of again.
  std::erase_if(gone_, [&](const auto& gone) {
    const kube::ObjectMeta& meta = gone.second.meta;
    return in_scope(meta.name_space) && meta.resource_version <= version &&
           !keys.contains(gone.first);
  });
  std::uint64_t& seen = seen_[name_space];
  seen = std::max(seen, version);
  return changed;
}

template <class T>
void Store<T>::progress(const std::string& name_space, std::uint64_t version) {
  const std::lock_guard lock(mutex_);
  std::uint64_t& seen = seen_[name_space];
  seen = std::max(seen, version);
}

template <class T>
std::uint64_t Store<T>::seen_version(const std::string& name_space) const {
  const std::lock_guard lock(mutex_);
  const auto seen = seen_.find(watch_of(name_space));
  return seen == seen_.end() ? 0 : seen->second;
}

template <class T>
std::optional<typename Store<T>::Entry> Store<T>::find(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(key);
  if (entry == entries_.end()) return std::nullopt;
  return entry->second;
}

template <class T>
std::vector<typename Store<T>::Entry> Store<T>::owned_by(const std::string& controller_uid) const {
  const std::lock_guard lock(mutex_);
  std::vector<Entry> found;
  const auto keys = owned_.find(controller_uid);
  if (keys == owned_.end()) return found;
  for (const std::string& key : keys->second) found.push_back(entries_.at(key));
  return found;
}

template <class T>
std::vector<typename Store<T>::Entry> Store<T>::entries() const {
  const std::lock_guard lock(mutex_);
  std::vector<Entry> all;
  all.reserve(entries_.size());
  for (const auto& [key, entry] : entries_) all.push_back(entry);
  return all;
}

template <class T>
std::size_t Store<T>::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

template <class T>
std::string Store<T>::watch_of(const std::string& name_space) const {
  return seen_.contains(name_space) ? name_space : "";
}

template <class T>
void Store<T>::erase(typename std::map<std::string, Entry>::iterator entry) {
  const auto owner = owned_.find(entry->second.meta.controller_uid);
  if (owner != owned_.end()) {
    owner->second.erase(entry->first);
    if (owner->second.empty()) owned_.erase(owner);
  }
  entries_.erase(entry);
}

}  // namespace coxswain::controller
