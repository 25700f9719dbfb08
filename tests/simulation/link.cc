#include <fmt/format.h>

#include <algorithm>
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

void Link::wait(std::chrono::milliseconds time) {
  wire_.elapsed += time;
  if (wire_.elapsed >= std::chrono::seconds(1))
    wire_.wait(static_cast<int>(std::chrono::ceil<std::chrono::seconds>(time).count()));
  if (dead_) crash();
}

// The one that this request meets.
Wire::Trouble* Link::trouble_with(const std::string& what, int index) {
  for (Wire::Trouble& trouble : wire_.troubles) {
    const bool begins = trouble.plan.watched.empty() && trouble.plan.fault != Fault::kNone &&
                        !trouble.happened && index == trouble.plan.at;
    if (begins) {
      trouble.happened = true;
      trouble.request = what;
      const Fault fault = trouble.plan.fault;
      const bool repeats = fault == Fault::kError || fault == Fault::kHang;
      trouble.tries_left = repeats ? trouble.plan.tries : 1;
    }
    if (trouble.tries_left > 0 && trouble.request == what) return &trouble;
  }
  return nullptr;
}

Response Link::send(const Request& request) {
  if (dead_ || must_crash) crash();
  const int index = wire_.requests++;
  const std::string what = fmt::format("{} {}", word(request.method), request.target);
  wire_.log.push_back(what);
  if (request.method != Method::kGet) {
    ++wire_.writes;
    wire_.scene.laws.demand(!late_ || holds_lease, "a write without the lease: " + what);
  }
  Wire::Trouble* const trouble = trouble_with(what, index);
  if (trouble) --trouble->tries_left;
  const Response response = trouble ? with_fault(request, trouble->plan) : forward(request);
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

Response Link::with_fault(const Request& request, const FaultPlan& plan) {
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
      if (plan.point == Point::kApplied) forward(request);
      if (plan.code == 0) return no_answer();
      Response response = status_response(plan.code, reason_of(plan.code, request.method),
                                          fmt::format("injected {}", plan.code));
      if (plan.code == 429) response.retry_after = std::chrono::seconds(1);
      return response;
    }
    case Fault::kHang: {
      if (plan.point == Point::kApplied) forward(request);
      if (plan.point == Point::kReplied)
        wire_.late.push_back({server.now + std::chrono::ceil<job::Seconds>(request.deadline) +
                                  job::Seconds(plan.seconds),
                              mutated(request)});
      wait(request.deadline);
      if (wire_.mutation != Mutation::kHangIsSuccess) return no_answer();
      return {.status = 200, .retry_after = {}, .body = request.body};
    }
    case Fault::kStep: {
      const Response response = forward(request);
      wire_.skew += job::Seconds(plan.seconds);
      wire_.most_skew = std::max(wire_.most_skew, wire_.skew);
      return response;
    }
    case Fault::kZombie:
      wire_.take_over();
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
  wire_.scene.laws.caller = {late_, &loop->jobs(), wire_.most_skew};
  if (request.method == Method::kGet) {
    const auto as_of = [&](std::uint64_t version) {
      return wire_.scene.server.answer_as_of(request, version);
    };
    const bool narrow_list = concerns(request, "/pods?") && concerns(request, "%3D");
    if (wire_.mutation == Mutation::kPodsNotListedAgain && narrow_list)
      return as_of(loop->pods().seen_version(kNamespace));
    if (wire_.mutation == Mutation::kJobNotReadAgain && concerns(request, "/trainingjobs/"))
      return as_of(loop->jobs().seen_version(kNamespace));
  }
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

void Link::mutate_list(const std::string& resource, bool is_first, Response& response) const {
  const bool hides = wire_.mutation == Mutation::kActsBeforePodsAreListed && is_first;
  const bool keeps = wire_.mutation == Mutation::kRelistKeepsVanished && !is_first;
  if (!(hides && resource == "pods") && !keeps) return;
  Json list = Json::parse(response.body);
  if (hides) list["items"] = Json::array();
  if (keeps)
    for (const Revision& revision : wire_.scene.server.history())
      if (revision.resource == resource && revision.type == kube::WatchEventType::kDeleted)
        list["items"].push_back(*revision.object);
  response.body = list.dump();
}

Response Link::mutated(const Request& request, Response response) {
  const Mutation mutation = wire_.mutation;
  for (const char* resource : {"pods", "trainingjobs"})
    if (request.target.find(fmt::format("/{}?", resource)) != std::string::npos)
      mutate_list(resource, lists_[resource]++ == 0, response);
  const int hidden = mutation == Mutation::kExistsIsSuccess    ? 409
                     : mutation == Mutation::kRefusalIsSuccess ? 403
                                                               : -1;
  if (request.method != Method::kPost || response.status != hidden) return response;
  return {.status = 201, .retry_after = {}, .body = request.body};
}

}  // namespace coxswain::test
