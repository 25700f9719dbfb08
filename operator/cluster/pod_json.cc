#include "operator/cluster/pod_json.h"

namespace coxswain::cluster {

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
