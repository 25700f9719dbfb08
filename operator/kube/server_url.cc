#include "operator/kube/server_url.h"

#include <arpa/inet.h>

#include <charconv>
#include <string_view>

namespace coxswain::kube {

namespace {

constexpr std::string_view kHostCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-";
constexpr std::string_view kPathCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_~:/";

// "[fd00::1]"; a zone would be one of this machine, and is none of the server's name.
bool is_ipv6(std::string_view text) {
  if (!text.starts_with('[') || !text.ends_with(']')) return false;
  in6_addr address{};
  return inet_pton(AF_INET6, std::string(text.substr(1, text.size() - 2)).c_str(), &address) == 1;
}

bool is_port(std::string_view text) {
  int port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size() && port > 0 && port < 65536;
}

}  // namespace

std::optional<std::string> problem_of_server(const std::string& url, bool allow_http) {
  std::string_view rest = url;
  if (rest.starts_with("https://")) {
    rest.remove_prefix(8);
  } else if (rest.starts_with("http://")) {
    if (!allow_http)
      return "plain http sends the token in the clear: write https://, or pass --allow-insecure";
    rest.remove_prefix(7);
  } else {
    return "unsupported URL: write https://host:port";
  }
  if (rest.find('@') != std::string_view::npos)
    return "unsupported URL: a user or password in it: use a token or a client certificate";
  const std::size_t slash = rest.find('/');
  const std::string_view authority = rest.substr(0, slash);
  const std::string_view path = slash == std::string_view::npos ? "" : rest.substr(slash);
  const std::size_t bracket = authority.find(']');
  const std::size_t colon = authority.find(':', bracket == std::string_view::npos ? 0 : bracket);
  const std::string_view host = authority.substr(0, colon);
  if (host.starts_with('[') && !is_ipv6(host))
    return "unsupported URL: no IPv6 address in the brackets: write https://[fd00::1]:port";
  if (!is_ipv6(host) &&
      (host.empty() || host.find_first_not_of(kHostCharacters) != std::string_view::npos))
    return "unsupported URL: no valid host in it: write https://host:port";
  if (colon != std::string_view::npos && !is_port(authority.substr(colon + 1)))
    return "unsupported URL: the port must be 1 to 65535";
  if (path.find_first_not_of(kPathCharacters) != std::string_view::npos ||
      path.find("..") != std::string_view::npos || path.find("//") != std::string_view::npos)
    return "unsupported URL: only a plain path may follow the host";
  return std::nullopt;
}

}  // namespace coxswain::kube
