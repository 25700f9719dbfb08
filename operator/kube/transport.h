#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

namespace coxswain::kube {

enum class Method { kGet, kPost, kPut, kPatch, kDelete };

struct Request {
  Method method = Method::kGet;
  std::string target;        // path and query, already encoded: "/api/v1/pods?limit=500"
  std::string content_type;  // of the body
  std::string body;
  std::string accept = "application/json";
  std::chrono::milliseconds deadline{10'000};  // for the whole answer; in a stream, between two
                                               // pieces of it
};

struct Response {
  int status = 0;  // 0: no answer came, or it broke off; the body says why
  std::optional<std::chrono::seconds> retry_after;
  std::string body;
  bool is_too_long = false;  // no answer, for it is over the limit
};

// HTTP to one API server. Calls may come from several threads at once; each blocks until its answer
// is there. Knows no Kubernetes. Never throws: what goes wrong is a status of 0.
class Transport {
 public:
  virtual ~Transport() = default;

  // One request, one answer of at most 16 MiB. Not repeated here, and redirects are not followed.
  virtual Response send(const Request& request) = 0;

  // Hands the pieces of a 2xx answer to `on_data` as they come, until it returns false, the answer
  // ends, `stop` is asked for, or the deadline passes without a piece. The status is the answer's;
  // 0 where it broke off or went silent. The body is that of an answer other than 2xx.
  virtual Response stream(const Request& request, std::stop_token stop,
                          const std::function<bool(std::string_view piece)>& on_data) = 0;
};

}  // namespace coxswain::kube
