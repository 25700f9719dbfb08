#include <fmt/format.h>

#include <array>

#include "operator/cluster/pod.h"
#include "tests/simulation/operator_instance.h"

namespace coxswain::test {

using kube::Method;
using kube::Request;
using kube::Response;

namespace {

const char* word(Method method) {
  constexpr auto kWords = std::to_array<const char*>({"GET", "POST", "PUT", "PATCH", "DELETE"});
  return kWords[static_cast<std::size_t>(method)];
}

std::string reason_of(int code, Method method) {
  switch (code) {
    case 403:
      return "Forbidden";
    case 404:
      return "NotFound";
    case 409:
      return method == Method::kPost ? "AlreadyExists" : "Conflict";
    case 410:
      return "Expired";
    case 422:
      return "Invalid";
    case 429:
      return "TooManyRequests";
    case 503:
      return "ServiceUnavailable";
    default:
      return "InternalError";
  }
}

Response no_answer() {
  return {.status = 0, .retry_after = {}, .body = "connection reset by peer"};
}

bool concerns(const Request& request, std::string_view resource) {
  return request.target.find(resource) != std::string::npos;
}

}  // namespace

void Link::crash() {
  dead_ = true;
  throw Crash{};
}

Response Link::send(const Request& request) {
  if (dead_ || must_crash) crash();
  const FaultPlan& plan = wire_.plan;
  const int index = wire_.requests++;
  const std::string what = fmt::format("{} {}", word(request.method), request.target);
  wire_.log.push_back(what);
  if (request.method != Method::kGet) {
    ++wire_.writes;
    wire_.scene.laws.demand(!late_ || !plan.fenced, "a write without the lease: " + what);
  }
  const bool of_requests = plan.fault == Fault::kCrash || plan.fault == Fault::kError ||
                           plan.fault == Fault::kZombie || plan.fault == Fault::kStaleRead;
  const bool first = of_requests && !wire_.happened && index == plan.at;
  const bool again = tries_left_ > 0 && afflicted_ == what;
  if (first) {
    wire_.happened = true;
    afflicted_ = what;
    tries_left_ = plan.tries;
  }
  const Response response = first || again ? with_fault(request, first) : forward(request);
  if (wire_.trace)
    fmt::print("{:>6} #{:<3} {}{} -> {}\n",
               wire_.scene.server.now.time_since_epoch().count() % 100'000, index,
               late_ ? "late " : "", what, response.status);
  return response;
}

Response Link::stream(const Request&, std::stop_token,
                      const std::function<bool(std::string_view)>&) {
  return no_answer();
}

Response Link::with_fault(const Request& request, bool first) {
  const FaultPlan& plan = wire_.plan;
  ApiServer& server = wire_.scene.server;
  switch (plan.fault) {
    case Fault::kCrash: {
      if (plan.point == Point::kBefore) crash();
      const Response response = forward(request);
      if (plan.point == Point::kApplied) crash();
      must_crash = true;
      return response;
    }
    case Fault::kError: {
      --tries_left_;
      if (plan.point == Point::kApplied) forward(request);
      if (plan.code == 0) return no_answer();
      Response response = status_response(plan.code, reason_of(plan.code, request.method),
                                          fmt::format("injected {}", plan.code));
      if (plan.code == 429) response.retry_after = std::chrono::seconds(1);
      return response;
    }
    case Fault::kZombie:
      if (first) wire_.take_over();
      if (plan.fenced) holds_lease = false;
      late_ = true;
      return forward(request);
    case Fault::kStaleRead:
      if (request.method != Method::kGet) return forward(request);
      return server.answer_as_of(request,
                                 server.version() - static_cast<std::uint64_t>(plan.seconds));
    default:
      return forward(request);
  }
}

Response Link::forward(const Request& request) {
  wire_.scene.laws.caller = {late_, jobs};
  const bool narrow_list =
      request.method == Method::kGet && concerns(request, "/pods?") && concerns(request, "%3D");
  if (wire_.mutation == Mutation::kPodsNotListedAgain && narrow_list)
    return wire_.scene.server.answer_as_of(request, pods_seen);
  const Request sent = mutated(request);
  return mutated(sent, wire_.scene.server.answer(sent));
}

Request Link::mutated(Request request) const {
  const Mutation mutation = wire_.mutation;
  if (mutation == Mutation::kNone || request.body.empty()) return request;
  Json body = Json::parse(request.body);
  const bool deletes_pod = request.method == Method::kDelete && concerns(request, "/pods/");
  const bool deletes_job = request.method == Method::kDelete && concerns(request, "/trainingjobs/");
  if (mutation == Mutation::kNoUidOnDelete && deletes_pod) body.erase("preconditions");
  if (mutation == Mutation::kNoPreconditionsOnJob && deletes_job) body.erase("preconditions");
  if (mutation == Mutation::kNoTimeToSave && deletes_pod) body["gracePeriodSeconds"] = 0;
  if (mutation == Mutation::kNoOwner && request.method == Method::kPost)
    body["metadata"].erase("ownerReferences");
  if (request.method == Method::kPatch && mutation == Mutation::kNoVersionOnStatus)
    body["metadata"].erase("resourceVersion");
  if (request.method == Method::kPatch && mutation == Mutation::kNoUidNorVersionOnStatus)
    body.erase("metadata");
  request.body = body.dump();
  return request;
}

Response Link::mutated(const Request& request, Response response) const {
  const int hidden = wire_.mutation == Mutation::kExistsIsSuccess    ? 409
                     : wire_.mutation == Mutation::kRefusalIsSuccess ? 403
                                                                     : -1;
  if (request.method != Method::kPost || response.status != hidden) return response;
  return {.status = 201, .retry_after = {}, .body = request.body};
}

}  // namespace coxswain::test
