#include "operator/cluster/pod_json.h"

namespace coxswain::cluster {

const Json* find(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

const Json& list_at(const Json& object, const char* key) {
  static const Json kEmpty = Json::array();
  const Json* value = find(object, key);
  return value && value->is_array() ? *value : kEmpty;
}

Json& object_in(Json& owner, const char* key) {
  if (!owner.is_object()) owner = Json::object();
  Json& member = owner[key];
  if (!member.is_object()) member = Json::object();
  return member;
}

Json& list_in(Json& owner, const char* key) {
  if (!owner.is_object()) owner = Json::object();
  Json& member = owner[key];
  if (!member.is_array()) member = Json::array();
  return member;
}

void fill(Json& owner, const char* key, Json value) {
  if (!find(owner, key)) owner[key] = std::move(value);
}

}  // namespace coxswain::cluster
