#include "operator/job/text_forms.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

#include "operator/job/quantity.h"
#include "operator/job/validation.h"

// https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/apis/core/validation/validation.go and
// https://github.com/kubernetes/apimachinery/blob/v0.34.0/pkg/util/validation/validation.go
namespace coxswain::job {

namespace {

bool is_one_of(std::initializer_list<std::string_view> known, std::string_view text) {
  return std::ranges::find(known, text) != known.end();
}

// Letters and digits, and those of `others`.
bool is_made_of(std::string_view text, std::string_view others) {
  return !text.empty() && std::ranges::all_of(text, [&](unsigned char c) {
    return std::isalnum(c) || others.find(static_cast<char>(c)) != std::string_view::npos;
  });
}

std::string lower_case(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

std::string replaced(std::string_view text, char old, char fresh) {
  std::string result(text);
  std::ranges::replace(result, old, fresh);
  return result;
}

// metadata.labels['key']
bool is_marked_field(std::string_view text) {
  for (const std::string_view map : {"metadata.labels['", "metadata.annotations['"})
    if (text.starts_with(map) && text.ends_with("']") && text.size() > map.size() + 2) {
      const std::string_view key = text.substr(map.size(), text.size() - map.size() - 2);
      return is_qualified_name(map == "metadata.labels['" ? std::string(key) : lower_case(key));
    }
  return false;
}

}  // namespace

bool is_address(std::string_view text) {
  std::array<unsigned char, sizeof(in6_addr)> address{};
  const std::string terminated(text);
  return inet_pton(AF_INET, terminated.c_str(), address.data()) == 1 ||
         inet_pton(AF_INET6, terminated.c_str(), address.data()) == 1;
}

bool is_search_domain(std::string_view text) {
  if (text == ".") return true;
  if (text.ends_with('.')) text.remove_suffix(1);
  return is_dns_subdomain(replaced(text, '_', 'a'));
}

bool is_key(std::string_view text) {
  return text.size() <= 253 && is_made_of(text, "-._") && text != "." && !text.starts_with("..");
}

bool is_header(std::string_view text) { return is_made_of(text, "-"); }

bool is_sysctl(std::string_view text) {
  if (text.starts_with('_') || text.ends_with('_')) return false;
  return is_dns_subdomain(replaced(replaced(text, '/', '.'), '_', 'a'));
}

bool is_driver(std::string_view text) {
  return text.size() <= 63 && is_dns_subdomain(lower_case(text));
}

bool is_variable_prefix(std::string_view text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~' && c != '='; });
}

bool is_iscsi_name(std::string_view text) {
  return is_one_of({"iqn.", "eui.", "naa."}, text.substr(0, 4));
}

bool is_azure_disk(std::string_view text) {
  return text.starts_with("https://") || text.starts_with("/subscriptions/");
}

bool is_profile(std::string_view text) {
  const auto blank = [](unsigned char c) { return std::isspace(c) != 0; };
  return !text.empty() && text.size() <= 4095 && !blank(text.front()) && !blank(text.back());
}

bool is_field(std::string_view text) {
  return is_marked_field(text) ||
         is_one_of({"metadata.name", "metadata.namespace", "metadata.uid", "spec.host",
                    "spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs",
                    "status.podIP", "status.podIPs"},
                   text);
}

bool is_field_of_file(std::string_view text) {
  return is_marked_field(text) || is_one_of({"metadata.name", "metadata.namespace", "metadata.uid",
                                             "metadata.labels", "metadata.annotations"},
                                            text);
}

bool is_resource_field(std::string_view text) {
  const std::size_t dot = text.find('.');
  if (dot == std::string_view::npos || !is_one_of({"limits", "requests"}, text.substr(0, dot)))
    return false;
  const std::string_view name = text.substr(dot + 1);
  return is_one_of({"cpu", "memory", "ephemeral-storage"}, name) || name.starts_with("hugepages-");
}

bool is_divisor(std::string_view text) {
  return is_one_of({"0", "1m", "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti",
                    "1Pi", "1Ei"},
                   text);
}

bool is_amount(std::string_view text) { return parse_quantity(text).has_value(); }

bool is_positive(std::string_view text) { return parse_quantity(text).value_or(0) > 0; }

// https://www.rfc-editor.org/rfc/rfc6335#section-5.1
bool is_port_name(std::string_view text) {
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  return text.size() <= 15 && is_dns_label(text) && std::ranges::any_of(text, is_letter) &&
         text.find("--") == std::string_view::npos;
}

bool stays_below(std::string_view path) {
  return !path.empty() && ("/" + std::string(path) + "/").find("/../") == std::string::npos;
}

bool is_inner_path(std::string_view path) { return !is_absolute(path) && stays_below(path); }

bool is_file_path(std::string_view path) { return is_inner_path(path) && !path.starts_with(".."); }

bool is_absolute(std::string_view path) { return path.starts_with('/'); }

}  // namespace coxswain::job
