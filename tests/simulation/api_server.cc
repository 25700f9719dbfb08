#include "tests/simulation/api_server.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <string_view>
#include <utility>

#include "operator/cluster/pod.h"
#include "operator/job/job_reader.h"
#include "operator/job/status.h"
#include "trainer/contract/rfc3339.h"

namespace coxswain::test {

using job::Seconds;
using kube::Method;
using kube::Response;
using kube::WatchEventType;

namespace {

constexpr auto kKnown = std::to_array<std::pair<std::string_view, std::string_view>>(
    {{"/api/v1", "namespaces"},
     {"/api/v1", "pods"},
     {"/api/v1", "services"},
     {"/api/v1", "secrets"},
     {"/api/v1", "configmaps"},
     {"/apis/events.k8s.io/v1", "events"},
     {"/apis/scheduling.volcano.sh/v1beta1", "podgroups"},
     {"/apis/coxswain.dev/v1alpha1", "trainingjobs"}});

std::string decoded(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    int byte = 0;
    if (text[i] == '%' && i + 2 < text.size()) {
      std::from_chars(text.data() + i + 1, text.data() + i + 3, byte, 16);
      plain += static_cast<char>(byte);
      i += 2;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = text.find(separator);
    parts.push_back(decoded(text.substr(0, end)));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return parts;
}

std::string key_of(const Json& object) { return kube::key_of(kube::meta_of(object)); }

// As error messages name a kind: with its group, if that is no core one.
std::string full_name(const std::string& resource) {
  return resource == "trainingjobs" ? "trainingjobs.coxswain.dev" : resource;
}

Response conflict(const std::string& resource, const std::string& name, const std::string& why) {
  return status_response(409, "Conflict",
                         fmt::format("Operation cannot be fulfilled on {} \"{}\": {}",
                                     full_name(resource), name, why));
}

// A created object, or its metadata alone.
Response as_asked(const kube::Request& request, Response created) {
  if (created.status != 201 || request.accept.find("as=PartialObjectMetadata") == std::string::npos)
    return created;
  const Json part = {{"kind", "PartialObjectMetadata"},
                     {"apiVersion", "meta.k8s.io/v1"},
                     {"metadata", Json::parse(created.body).at("metadata")}};
  created.body = part.dump();
  return created;
}

// What is wrong with preconditions on `object`.
std::optional<std::string> unmet(const Json& wanted, const Json& object) {
  const Json& metadata = object.at("metadata");
  for (const auto& [field, text] :
       {std::pair("uid", "UID"), std::pair("resourceVersion", "ResourceVersion")}) {
    if (!wanted.contains(field) || wanted.at(field) == metadata.at(field)) continue;
    return fmt::format("Precondition failed: {} in precondition: {}, {} in object meta: {}", text,
                       wanted.at(field).get<std::string>(), text,
                       metadata.at(field).get<std::string>());
  }
  return std::nullopt;
}

bool selects(const std::string& selector, const Json& object) {
  if (selector.empty()) return true;
  const std::size_t equals = selector.find('=');
  const auto& metadata = object.at("metadata");
  const auto labels = metadata.find("labels");
  if (labels == metadata.end()) return false;
  const auto label = labels->find(selector.substr(0, equals));
  if (label == labels->end()) return false;
  return equals == std::string::npos || *label == selector.substr(equals + 1);
}

}  // namespace

bool is_living_pod(const Json& pod) {
  const auto& phase = pod.at("status").at("phase");
  return phase != "Succeeded" && phase != "Failed";
}

bool is_terminating(const Json& object) {
  return object.at("metadata").contains("deletionTimestamp");
}

std::string controller_of(const Json& object) { return kube::meta_of(object).controller_uid; }

Response status_response(int code, const std::string& reason, const std::string& message) {
  const Json status = {{"kind", "Status"},
                       {"apiVersion", "v1"},
                       {"metadata", Json::object()},
                       {"status", code < 300 ? "Success" : "Failure"},
                       {"message", message},
                       {"reason", reason},
                       {"code", code}};
  return {.status = code, .retry_after = {}, .body = status.dump()};
}

// What a path and its query name.
struct ApiServer::Target {
  std::string resource;
  std::string name_space;
  std::string name;
  std::string subresource;
  std::map<std::string, std::string> query;

  std::string key() const { return name_space + "/" + name; }

  static std::optional<Target> read(const std::string& target) {
    const std::size_t end = target.find('?');
    Target found;
    if (end != std::string::npos)
      for (const std::string& pair : split(std::string_view(target).substr(end + 1), '&')) {
        const std::size_t equals = pair.find('=');
        found.query[pair.substr(0, equals)] = pair.substr(equals + 1);
      }
    std::vector<std::string> parts = split(std::string_view(target).substr(1, end - 1), '/');
    const std::size_t head = parts.at(0) == "api" ? 2 : 3;
    std::string root;
    for (std::size_t i = 0; i < head && i < parts.size(); ++i) root += "/" + parts[i];
    std::size_t next = head;
    if (next + 2 < parts.size() && parts[next] == "namespaces") {
      found.name_space = parts[next + 1];
      next += 2;
    }
    if (next >= parts.size()) return std::nullopt;
    found.resource = parts[next];
    if (next + 1 < parts.size()) found.name = parts[next + 1];
    if (next + 2 < parts.size()) found.subresource = parts[next + 2];
    for (const auto& [prefix, plural] : kKnown)
      if (root == prefix && found.resource == plural) return found;
    return std::nullopt;
  }

  Response not_found() const {
    return status_response(404, "NotFound",
                           fmt::format("{} \"{}\" not found", full_name(resource), name));
  }
};

Response ApiServer::answer(const kube::Request& request) {
  const auto target = Target::read(request.target);
  if (!target) return {.status = 404, .retry_after = {}, .body = "404 page not found\n"};
  if (request.method == Method::kGet) return answer_as_of(request, version_);
  Json body = Json::parse(request.body, nullptr, false);
  if (!body.is_object())
    return status_response(400, "BadRequest", "the object provided is unrecognized");
  if (request.method == Method::kPost) return as_asked(request, post(*target, std::move(body)));
  if (request.method == Method::kPatch) return patch(*target, body);
  if (request.method == Method::kDelete) return erase(*target, body);
  return status_response(405, "MethodNotAllowed", "the server does not allow this method");
}

Response ApiServer::answer_as_of(const kube::Request& request, std::uint64_t version) const {
  const auto target = Target::read(request.target);
  if (!target) return {.status = 404, .retry_after = {}, .body = "404 page not found\n"};
  const Objects objects = objects_at(target->resource, version);
  if (target->name.empty()) return list(*target, objects, version);
  const auto found = objects.find(target->key());
  if (found == objects.end() && target->resource == "namespaces")  // those without a label
    return {.status = 200, .retry_after = {}, .body = R"({"metadata":{"labels":{}}})"};
  if (found == objects.end()) return target->not_found();
  return {.status = 200, .retry_after = {}, .body = found->second->dump()};
}

ApiServer::Objects ApiServer::objects_at(const std::string& resource, std::uint64_t version) const {
  if (version >= version_) {
    const auto found = objects_.find(resource);
    return found == objects_.end() ? Objects{} : found->second;
  }
  Objects objects;
  for (const Revision& revision : history_) {
    if (revision.version > version || revision.resource != resource) continue;
    if (revision.type == WatchEventType::kDeleted)
      objects.erase(key_of(*revision.object));
    else
      objects[key_of(*revision.object)] = revision.object;
  }
  return objects;
}

// A continue token is the version of the first page and the last key given.
Response ApiServer::list(const Target& target, const Objects& objects,
                         std::uint64_t version) const {
  const auto query = [&](const char* key) {
    const auto found = target.query.find(key);
    return found == target.query.end() ? std::string() : found->second;
  };
  const std::string token = query("continue");
  if (!token.empty()) {
    const std::uint64_t first = std::stoull(token);
    const std::string after = token.substr(token.find(':') + 1);
    Target rest = target;
    rest.query.erase("continue");
    Objects left = objects_at(target.resource, first);
    left.erase(left.begin(), left.upper_bound(after));
    return list(rest, left, first);
  }
  const std::string limit = query("limit");
  const std::size_t most = limit.empty() ? SIZE_MAX : std::stoull(limit);
  Json items = Json::array();
  Json metadata = {{"resourceVersion", std::to_string(version)}};
  std::string last;
  for (const auto& [key, object] : objects) {
    if (!target.name_space.empty() && !key.starts_with(target.name_space + "/")) continue;
    if (!selects(query("labelSelector"), *object)) continue;
    if (items.size() == most) {
      metadata["continue"] = fmt::format("{}:{}", version, last);
      break;
    }
    items.push_back(*object);
    items.back().erase("kind");
    items.back().erase("apiVersion");
    last = key;
  }
  const Json body = {
      {"kind", "List"}, {"apiVersion", "v1"}, {"metadata", metadata}, {"items", items}};
  return {.status = 200, .retry_after = {}, .body = body.dump()};
}

int ApiServer::living_pods() const {
  int count = 0;
  for (const Object& pod : all("pods")) count += is_living_pod(*pod);
  return count;
}

Response ApiServer::post(const Target& target, Json object) {
  object["metadata"]["namespace"] = target.name_space;
  const std::string name = kube::meta_of(object).name;
  // Nobody reads events back.
  if (target.resource == "events") return {.status = 201, .retry_after = {}, .body = object.dump()};
  if (find(target.resource, key_of(object)))
    return status_response(
        409, "AlreadyExists",
        fmt::format("{} \"{}\" already exists", full_name(target.resource), name));
  const int used = target.resource == "pods" && pod_quota ? living_pods() : 0;
  if (target.resource == "pods" && pod_quota && used >= *pod_quota)
    return status_response(
        403, "Forbidden",
        fmt::format("pods \"{}\" is forbidden: exceeded quota: pods, requested: pods=1, used: "
                    "pods={}, limited: pods={}",
                    name, used, *pod_quota));
  on_change(target.resource, nullptr, std::make_shared<const Json>(object));
  create(target.resource, std::move(object));
  return {.status = 201,
          .retry_after = {},
          .body = find(target.resource, target.name_space + "/" + name)->dump()};
}

Response ApiServer::patch(const Target& target, const Json& change) {
  const Object before = find(target.resource, target.key());
  if (!before) return target.not_found();
  const Json metadata = change.value("metadata", Json::object());
  if (metadata.contains("uid") && metadata.at("uid") != before->at("metadata").at("uid"))
    return conflict(target.resource, target.name, *unmet(metadata, *before));
  if (unmet(metadata, *before))
    return conflict(target.resource, target.name,
                    "the object has been modified; please apply your changes to the latest version "
                    "and try again");
  Json after = *before;
  const char* part = target.subresource == "status" ? "status" : "spec";
  after[part].merge_patch(change.value(part, Json::object()));
  if (after != *before) {
    on_change(target.resource, before, std::make_shared<const Json>(after));
    commit(target.resource, WatchEventType::kModified, std::move(after));
  }
  return {.status = 200, .retry_after = {}, .body = find(target.resource, target.key())->dump()};
}

Response ApiServer::erase(const Target& target, const Json& options) {
  const Object before = find(target.resource, target.key());
  if (!before) return target.not_found();
  if (const auto problem = unmet(options.value("preconditions", Json::object()), *before))
    return conflict(target.resource, target.name, *problem);
  if (target.resource == "pods") {
    const int usual = before->at("spec").value("terminationGracePeriodSeconds", 30);
    return erase_pod(target, before, Seconds(options.value("gracePeriodSeconds", usual)), true);
  }
  on_change(target.resource, before, nullptr);
  objects_[target.resource].erase(target.key());
  commit(target.resource, WatchEventType::kDeleted, *before);
  return status_response(200, "", "");
}

// A pod that runs nowhere, or no more, needs no time. A second delete can only make it shorter.
Response ApiServer::erase_pod(const Target& target, const Object& pod, Seconds grace, bool ours) {
  const bool on_a_node = pod->at("spec").contains("nodeName");
  if (!on_a_node || !is_living_pod(*pod)) grace = Seconds(0);
  Json after = *pod;
  const auto stored = parse_rfc3339(pod->at("metadata").value("deletionTimestamp", ""));
  if (grace > Seconds(0)) {
    if (!stored || now + grace < *stored) {
      after["metadata"]["deletionTimestamp"] = to_rfc3339(now + grace);
      after["metadata"]["deletionGracePeriodSeconds"] = grace.count();
      if (ours) on_change("pods", pod, std::make_shared<const Json>(after));
      commit("pods", WatchEventType::kModified, std::move(after));
    }
    return {.status = 200, .retry_after = {}, .body = find("pods", target.key())->dump()};
  }
  if (ours) on_change("pods", pod, nullptr);
  objects_["pods"].erase(target.key());
  after["metadata"]["deletionTimestamp"] = to_rfc3339(now);
  const Object gone = commit("pods", WatchEventType::kDeleted, std::move(after));
  return {.status = 200, .retry_after = {}, .body = gone->dump()};
}

Object ApiServer::commit(const std::string& resource, WatchEventType type, Json object) {
  object["metadata"]["resourceVersion"] = std::to_string(++version_);
  const auto stored = std::make_shared<const Json>(std::move(object));
  if (type != WatchEventType::kDeleted) objects_[resource][key_of(*stored)] = stored;
  history_.push_back({version_, resource, type, stored});
  return stored;
}

Object ApiServer::find(const std::string& resource, const std::string& key) const {
  const auto objects = objects_.find(resource);
  if (objects == objects_.end()) return nullptr;
  const auto found = objects->second.find(key);
  return found == objects->second.end() ? nullptr : found->second;
}

std::vector<Object> ApiServer::all(const std::string& resource) const {
  std::vector<Object> found;
  const auto objects = objects_.find(resource);
  if (objects == objects_.end()) return found;
  for (const auto& [key, object] : objects->second) found.push_back(object);
  return found;
}

std::string ApiServer::create(const std::string& resource, Json object) {
  const std::string uid =
      fmt::format("{:08x}-0000-4000-8000-{:012x}", next_uid_ * 2654435761U, next_uid_);
  ++next_uid_;
  object["metadata"]["uid"] = uid;
  object["metadata"]["creationTimestamp"] = to_rfc3339(now);
  if (resource == "trainingjobs") object["metadata"]["generation"] = 1;
  if (resource == "pods") object["status"]["phase"] = "Pending";
  commit(resource, WatchEventType::kAdded, std::move(object));
  return uid;
}

void ApiServer::edit(const std::string& resource, const std::string& key,
                     const std::function<void(Json&)>& change) {
  const Object before = find(resource, key);
  if (!before) return;
  Json after = *before;
  change(after);
  if (after == *before) return;
  if (resource == "trainingjobs" && after.at("spec") != before->at("spec"))
    after["metadata"]["generation"] = after["metadata"]["generation"].get<int>() + 1;
  commit(resource, WatchEventType::kModified, std::move(after));
}

void ApiServer::remove(const std::string& resource, const std::string& key,
                       std::optional<Seconds> grace) {
  const Object before = find(resource, key);
  if (!before) return;
  if (resource == "pods") {
    const int usual = before->at("spec").value("terminationGracePeriodSeconds", 30);
    Target target;
    const std::size_t slash = key.find('/');
    target.name_space = key.substr(0, slash);
    target.name = key.substr(slash + 1);
    erase_pod(target, before, grace.value_or(Seconds(usual)), false);
    return;
  }
  objects_[resource].erase(key);
  commit(resource, WatchEventType::kDeleted, *before);
}

void ApiServer::collect_garbage() {
  std::map<std::string, bool> owners;
  for (const Object& owner : all("trainingjobs"))
    owners[owner->at("metadata").at("uid").get<std::string>()] = true;
  for (const char* resource : {"pods", "services", "secrets", "configmaps", "podgroups"})
    for (const Object& child : all(resource)) {
      const std::string owner = controller_of(*child);
      if (owner.empty() || owners.contains(owner) || is_terminating(*child)) continue;
      remove(resource, key_of(*child));
    }
}

}  // namespace coxswain::test
