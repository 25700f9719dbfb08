#include "operator/kube/object.h"

#include <charconv>
#include <string_view>

#include "trainer/contract/worker/json_fields.h"

namespace coxswain::kube {

namespace {

using contract::find;
using contract::list_at;
using contract::member;
using contract::text_at;

bool is_unreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

std::string controller_of(const Json& metadata) {
  for (const Json& owner : list_at(metadata, "ownerReferences"))
    if (member(owner, "controller") == true) return text_at(owner, "uid");
  return "";
}

}  // namespace

std::string percent_encoded(std::string_view text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    if (is_unreserved(c)) {
      encoded += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    encoded += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return encoded;
}

std::string api_version(const Resource& resource) {
  return resource.group.empty() ? resource.version : resource.group + "/" + resource.version;
}

std::string path_of(const Resource& resource, const std::string& name_space,
                    const std::string& name, const std::string& subresource) {
  std::string path = resource.group.empty() ? "/api" : "/apis/" + percent_encoded(resource.group);
  const auto add = [&path](const std::string& part) { path += "/" + percent_encoded(part); };
  add(resource.version);
  if (!name_space.empty()) {
    add("namespaces");
    add(name_space);
  }
  add(resource.plural);
  if (!name.empty()) add(name);
  if (!subresource.empty()) add(subresource);
  return path;
}

std::uint64_t version_number(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : 0;
}

ObjectMeta meta_of(const Json& object) {
  const Json& metadata = member(object, "metadata");
  return {.name_space = text_at(metadata, "namespace"),
          .name = text_at(metadata, "name"),
          .uid = text_at(metadata, "uid"),
          .resource_version = version_number(text_at(metadata, "resourceVersion")),
          .controller_uid = controller_of(metadata),
          .terminating = find(metadata, "deletionTimestamp") != nullptr};
}

std::string key_of(const ObjectMeta& meta) { return meta.name_space + "/" + meta.name; }

}  // namespace coxswain::kube
