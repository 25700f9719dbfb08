#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "operator/controller/informer.h"
#include "operator/controller/store.h"

namespace coxswain::controller {

// Resource. Feeds a store from an informer, and tells of each change: with the value as it is now,
// and as it was before. So both the job that lost a pod and the one that got it hear of it.
template <class T>
class StoreSink : public ObjectSink {
 public:
  // What to keep of an object; nullopt: it is none of ours. Must not throw.
  using Project = std::function<std::optional<T>(const kube::Json&)>;
  // On the informer's thread, without a lock, after the store has changed.
  using Changed = std::function<void(const kube::ObjectMeta&, const T&)>;

  // `name_space` is that of the informer's query; `store` must outlive this.
  StoreSink(Store<T>& store, std::string name_space, Project project, Changed on_change)
      : store_(store),
        name_space_(std::move(name_space)),
        project_(std::move(project)),
        on_change_(std::move(on_change)) {}

  void begin_list() override { listed_.clear(); }

  void listed(const kube::Json& object) override {
    if (auto value = project_(object))
      listed_.push_back({kube::meta_of(object), *std::move(value)});
  }

  void end_list(std::uint64_t version) override {
    const auto changes = store_.replace(name_space_, std::exchange(listed_, {}), version);
    for (const auto& change : changes) on_change_(change.meta, change.value);
  }

  void changed(const kube::Json& object) override {
    const kube::ObjectMeta meta = kube::meta_of(object);
    const auto before = store_.find(kube::key_of(meta));
    // The answer to a write of ours has told it already.
    const bool known = before && before->meta.uid == meta.uid &&
                       before->meta.resource_version >= meta.resource_version;
    if (known) return store_.progress(name_space_, meta.resource_version);
    auto value = project_(object);
    if (!value) return deleted(object);
    if (!store_.put(meta, *value)) return;
    if (before) on_change_(before->meta, before->value);
    on_change_(meta, *value);
  }

  void deleted(const kube::Json& object) override {
    const kube::ObjectMeta meta = kube::meta_of(object);
    const auto before = store_.find(kube::key_of(meta));
    if (store_.remove(meta) && before) on_change_(before->meta, before->value);
  }

  void progress(std::uint64_t version) override { store_.progress(name_space_, version); }

 private:
  Store<T>& store_;
  const std::string name_space_;
  const Project project_;
  const Changed on_change_;
  std::vector<typename Store<T>::Entry> listed_;  // of the list that is under way
};

}  // namespace coxswain::controller
