#include "operator/kube/client.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <thread>
#include <utility>

#include "operator/kube/list_page.h"

namespace coxswain::kube {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kAllTries{30'000};
constexpr milliseconds kFirstWait{100};
constexpr milliseconds kIdleWatch{60'000};
constexpr int kWatchSeconds = 50;
constexpr int kListBegins = 4;  // an expired page begins the list anew, so often at most
constexpr int kShrink = 8;      // so many times fewer objects a page after one that was too long
constexpr const char* kTooLong = "TooLong";
constexpr const char* kMetadataAnswer =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

bool changes(Method method) { return method != Method::kGet; }
bool is_success(int status) { return status >= 200 && status < 300; }
bool may_pass(const Response& response) {
  const int status = response.status;
  return !response.is_too_long && (status == 0 || status == 429 || status >= 500);
}

// Texts from pods' files and logs need not be UTF-8; JSON must.
std::string text_of(const Json& object) {
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string resource_name(const Resource& resource, const std::string& subresource) {
  return subresource.empty() ? resource.plural : resource.plural + "/" + subresource;
}

ApiError not_leader() {
  return {.code = 0,
          .reason = "NotLeader",
          .message = "not sent: another operator may hold the lease",
          .retry_after = {}};
}

ApiError unreadable(int status) {
  return {.code = 0,
          .reason = "NoAnswer",
          .message = fmt::format("the answer ({}) is no object of the API", status),
          .retry_after = {}};
}

// Between half of the usual wait and all of it, so that many clients do not come back at once; what
// the server asks for is waited in full.
milliseconds wait_before(int next_try, const Response& response, double random) {
  const milliseconds most = kFirstWait * (1 << std::min(next_try - 1, 8));
  const auto usual = most / 2 + std::chrono::round<milliseconds>(most / 2 * random);
  return std::max<milliseconds>(usual, response.retry_after.value_or(std::chrono::seconds(0)));
}

std::string query_of(const ListQuery& query) {
  std::string text;
  if (!query.label_selector.empty())
    text += "&labelSelector=" + percent_encoded(query.label_selector);
  if (!query.field_selector.empty())
    text += "&fieldSelector=" + percent_encoded(query.field_selector);
  return text;
}

void complete(const Resource& resource, Json& item) {
  item["apiVersion"] = api_version(resource);
  item["kind"] = resource.kind;
}

// What the lines of one watch say, until it ends.
class WatchReader {
 public:
  WatchReader(const LeftOut& left_out, const std::function<void(const WatchEvent&)>& on_event)
      : left_out_(left_out), on_event_(on_event) {}

  // False: the watch is over.
  bool add(std::string_view piece) {
    const bool more = lines_.add(piece, [this](std::string_view line) { return take(line); });
    if (!more && !end_) distrust(fmt::format("a line over {} MiB", kMaxLineBytes >> 20));
    return more;
  }

  const std::optional<WatchEnd>& end() const { return end_; }

 private:
  bool take(std::string_view line) {
    const auto event = parse_watch_event(line, left_out_);
    if (!event) {
      distrust(fmt::format("a line of {} bytes that is no event", line.size()));
    } else if (event->type == WatchEventType::kError) {
      fail(event->object);
    } else {
      on_event_(*event);
    }
    return !end_;
  }

  void fail(const Json& status) {
    const auto code = status.find("code");
    const int number = code != status.end() && code->is_number_integer() ? code->get<int>() : 500;
    end_ = WatchEnd{.expired = number == 410, .error = error_of(number, status.dump(), {})};
  }

  void distrust(const std::string& what) {
    end_ = WatchEnd{.expired = true,
                    .error = ApiError{.code = 0,
                                      .reason = "BadWatch",
                                      .message = "the watch sent " + what,
                                      .retry_after = {}}};
  }

  const LeftOut& left_out_;
  const std::function<void(const WatchEvent&)>& on_event_;
  LineBuffer lines_;
  std::optional<WatchEnd> end_;
};

}  // namespace

double any_random() {
  std::minstd_rand engine(
      static_cast<std::uint32_t>(std::chrono::steady_clock::now().time_since_epoch().count()));
  return std::generate_canonical<double, 32>(engine);
}

Client::Client(Transport& transport, ClientOptions options)
    : transport_(transport), options_(std::move(options)) {
  if (!options_.sleep)
    options_.sleep = [](milliseconds time) { std::this_thread::sleep_for(time); };
}

Result<Json> Client::get(const Resource& resource, const std::string& name_space,
                         const std::string& name) {
  return call({.method = Method::kGet,
               .target = path_of(resource, name_space, name),
               .content_type = {},
               .body = {}},
              resource.plural);
}

Result<Json> Client::create(const Resource& resource, const std::string& name_space,
                            const Json& object, Extent answer) {
  Request request{.method = Method::kPost,
                  .target = path_of(resource, name_space),
                  .content_type = "application/json",
                  .body = text_of(object)};
  if (answer == Extent::kMetadata) request.accept = kMetadataAnswer;
  return call(std::move(request), resource.plural);
}

Result<Json> Client::update(const Resource& resource, const std::string& name_space,
                            const std::string& name, const Json& object) {
  return call({.method = Method::kPut,
               .target = path_of(resource, name_space, name),
               .content_type = "application/json",
               .body = text_of(object)},
              resource.plural);
}

Result<Json> Client::patch(const Resource& resource, const std::string& name_space,
                           const std::string& name, const std::string& subresource,
                           const Json& patch) {
  return call({.method = Method::kPatch,
               .target = path_of(resource, name_space, name, subresource),
               .content_type = "application/merge-patch+json",
               .body = text_of(patch)},
              resource_name(resource, subresource));
}

Result<Json> Client::remove(const Resource& resource, const std::string& name_space,
                            const std::string& name, const DeletePreconditions& preconditions) {
  Json wanted = {{"uid", preconditions.uid}};
  if (!preconditions.resource_version.empty())
    wanted["resourceVersion"] = preconditions.resource_version;
  Json options = {{"apiVersion", "v1"},
                  {"kind", "DeleteOptions"},
                  {"preconditions", wanted},
                  {"propagationPolicy", "Background"}};
  if (preconditions.grace) options["gracePeriodSeconds"] = preconditions.grace->count();
  return call({.method = Method::kDelete,
               .target = path_of(resource, name_space, name),
               .content_type = "application/json",
               .body = text_of(options)},
              resource.plural);
}

Result<Json> Client::call(Request request, const std::string& resource) {
  const Result<Response> response = send(std::move(request), resource);
  if (!response) return response.error();
  auto object = parse_object(response->body, options_.left_out);
  if (!object) return unreadable(response->status);
  return std::move(*object);
}

Result<Response> Client::send(Request request, const std::string& resource) {
  const auto start = options_.clock.now();
  milliseconds waited{0};  // by the injected sleep, which may not take its time
  for (int next_try = 1;; ++next_try) {
    if (changes(request.method) && !options_.may_write()) return not_leader();
    const auto spent = [&] {
      return std::max(waited, std::chrono::ceil<milliseconds>(options_.clock.now() - start));
    };
    const milliseconds most = std::max(options_.deadline(), milliseconds(1));
    request.deadline = std::clamp(kAllTries - spent(), milliseconds(1), most);
    const auto began = options_.clock.now();
    Response response = transport_.send(request);
    options_.on_call(
        {request.method, resource, response.status,
         std::chrono::duration_cast<std::chrono::microseconds>(options_.clock.now() - began)});
    if (is_success(response.status)) return response;
    ApiError error = error_of(response.status, response.body, response.retry_after);
    if (response.is_too_long) error.reason = kTooLong;
    if (!may_pass(response) || next_try >= options_.tries) return error;
    response.retry_after = error.retry_after;
    const milliseconds wait = wait_before(next_try, response, options_.clock.random());
    if (spent() + wait >= kAllTries) return error;
    options_.sleep(wait);
    waited += wait;
  }
}

Result<std::string> Client::list(const Resource& resource, const ListQuery& query,
                                 const std::function<void(Json item)>& on_item,
                                 const std::function<void()>& on_anew) {
  std::string continue_token;
  int page_size = query.page_size;
  for (int begins = 1;;) {
    const std::string target = fmt::format(
        "{}?limit={}{}{}", path_of(resource, query.name_space), page_size, query_of(query),
        continue_token.empty() ? "" : "&continue=" + percent_encoded(continue_token));
    const Result<Response> response =
        send({.method = Method::kGet, .target = target, .content_type = {}, .body = {}},
             resource.plural);
    if (!response && response.error().reason == kTooLong && page_size > 1) {
      page_size = std::max(1, page_size / kShrink);
      continue;
    }
    if (!response) {
      const bool page_expired = response.error().code == 410 && !continue_token.empty();
      if (!page_expired || ++begins > kListBegins) return response.error();
      on_anew();
      continue_token.clear();
      continue;
    }
    const auto page = parse_list_page(response->body, options_.left_out, [&](Json item) {
      complete(resource, item);
      on_item(std::move(item));
    });
    if (!page) return unreadable(response->status);
    if (page->continue_token.empty()) return page->version;
    continue_token = page->continue_token;
  }
}

std::optional<ApiError> Client::read(const std::string& target, milliseconds silence,
                                     std::stop_token stop,
                                     const std::function<bool(std::string_view)>& on_data) {
  const Request request{.method = Method::kGet,
                        .target = target,
                        .content_type = {},
                        .body = {},
                        .deadline = silence};
  bool enough = false;
  const Response response = transport_.stream(request, stop, [&](std::string_view piece) {
    enough = !on_data(piece);
    return !enough;
  });
  if (enough || is_success(response.status) || stop.stop_requested()) return std::nullopt;
  return error_of(response.status, response.body, response.retry_after);
}

WatchEnd Client::watch(const Resource& resource, const ListQuery& query, const std::string& version,
                       std::stop_token stop,
                       const std::function<void(const WatchEvent&)>& on_event) {
  const Request request{
      .method = Method::kGet,
      .target = fmt::format("{}?watch=true&allowWatchBookmarks=true&timeoutSeconds={}"
                            "&resourceVersion={}{}",
                            path_of(resource, query.name_space), kWatchSeconds,
                            percent_encoded(version), query_of(query)),
      .content_type = {},
      .body = {},
      .deadline = kIdleWatch};
  WatchReader reader(options_.left_out, on_event);
  const auto began = options_.clock.now();
  const Response response = transport_.stream(
      request, stop, [&reader](std::string_view piece) { return reader.add(piece); });
  options_.on_call(
      {request.method, resource_name(resource, "watch"), response.status,
       std::chrono::duration_cast<std::chrono::microseconds>(options_.clock.now() - began)});
  if (reader.end()) return *reader.end();
  if (is_success(response.status) || stop.stop_requested()) return {};
  return {.expired = response.status == 410,
          .error = error_of(response.status, response.body, response.retry_after)};
}

}  // namespace coxswain::kube
