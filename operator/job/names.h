#pragma once

#include <string_view>

namespace coxswain::job {

// The forms of names that Kubernetes knows.
// https://kubernetes.io/docs/concepts/overview/working-with-objects/names/, .../labels/

bool is_dns_label(std::string_view text);       // "worker-0": at most 63 characters
bool is_dns_subdomain(std::string_view text);   // "a.b-1": at most 253
bool is_label_value(std::string_view text);     // "", "A_b.1": at most 63
bool is_qualified_name(std::string_view text);  // "app", "example.org/app"

}  // namespace coxswain::job
