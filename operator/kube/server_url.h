#pragma once

#include <optional>
#include <string>

namespace coxswain::kube {

// What is wrong with the address of an API server, and what to write instead: it must be
// "https://host[:port][/path]" (http only if `allow_http`), without user, password, query,
// fragment or ".." in it; an IPv6 address stands in brackets. The answer never repeats a password.
std::optional<std::string> problem_of_server(const std::string& url, bool allow_http);

}  // namespace coxswain::kube
