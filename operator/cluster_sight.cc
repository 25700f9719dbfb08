#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "operator/cluster/kube_view.h"
#include "operator/cluster/pod.h"
#include "operator/cluster/pod_json.h"
#include "operator/cluster/pod_labels.h"
#include "operator/inspect/log_lines.h"
#include "operator/job/roles.h"
#include "operator/job_sight.h"
#include "operator/kube/client.h"
#include "operator/kube/http_transport.h"
#include "operator/operator.h"
#include "trainer/contract/error.h"

namespace coxswain {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kSilentLog{60'000};  // then the connection may be dead: it is made anew
constexpr milliseconds kAnswersWithin{5'000};
constexpr std::size_t kMostAnswer = 4 << 20;

[[noreturn]] void refuse(const std::string& what, const kube::ApiError& error) {
  const char* advice =
      error.code == 403 ? "; the chart's ClusterRole coxswain-inspect holds these rights" : "";
  throw Error(error.code == 0 ? ExitCode::kPeersMissing : ExitCode::kBadInput,
              fmt::format("{}: {}{}", what, to_text(error), advice));
}

kube::Config config_of(const SightOptions& options) {
  kube::Config config = find_api_server(options.kubeconfig, options.rules);
  if (!options.name_space.empty()) config.name_space = options.name_space;
  return config;
}

class ClusterSight : public JobSight {
 public:
  explicit ClusterSight(const SightOptions& options)
      : name_(options.job),
        config_(config_of(options)),
        transport_(config_),
        client_(transport_, client_options()) {}

  std::string place() const override { return "namespace " + config_.name_space; }

  std::optional<inspect::Sighting> look(bool with_events) override {
    const auto object = client_.get(cluster::kTrainingJobs, config_.name_space, name_);
    if (!object && object.error().code == 404) return std::nullopt;
    if (!object) refuse(fmt::format("TrainingJob {}", name_), object.error());
    inspect::Sighting seen;
    seen.job = *cluster::read_job(*object);
    seen.now = std::chrono::floor<job::Seconds>(std::chrono::system_clock::now());
    seen.place = place();
    list_pods(seen);
    if (with_events) list_events(seen);
    return seen;
  }

  void read_log(const job::Worker& worker, std::optional<int>, bool follow, std::stop_token stop,
                const OnLine& on_line) override {
    const std::string who = job::short_name(worker.id.role, worker.id.index);
    const std::string pod = name_ + "-" + who;
    std::string last;  // stamp of the last line that was told
    while (!stop.stop_requested()) {
      inspect::LineCutter cutter;
      const auto tell = [&](std::string_view line) {
        const auto [stamp, text] = inspect::split_stamp(line);
        if (!stamp.empty() && stamp <= last) return;  // told before the connection broke
        if (!stamp.empty()) last = stamp;
        on_line(who, text);
      };
      const auto error = client_.read(log_target(pod, container_of(worker), follow, last),
                                      kSilentLog, stop, [&](std::string_view piece) {
                                        cutter.add(piece, tell);
                                        return !stop.stop_requested();
                                      });
      cutter.end(tell);
      if (!error || error->code == 404) return;  // gone meanwhile
      if (error->code != 0 || !follow) refuse(fmt::format("log of {}", pod), *error);
      if (!is_still_there(pod, worker.uid)) return;
    }
  }

  std::optional<std::string> ask_rank_zero(const inspect::Sighting& seen,
                                           const std::string& path) override {
    const std::string pod = job::worker_name(seen.job, job::Role::kWorker, 0);
    const std::string target =
        fmt::format("{}:{}/proxy{}", kube::path_of(kube::kPods, config_.name_space, pod),
                    job::ports_of(seen.job).rank, path);
    std::string body;
    const auto error = client_.read(target, kAnswersWithin, {}, [&](std::string_view piece) {
      body += piece;
      return body.size() <= kMostAnswer;
    });
    if (error && error->code == 403) refuse(fmt::format("ranks of {}", pod), *error);
    if (error || body.size() > kMostAnswer) return std::nullopt;
    return body;
  }

 private:
  static kube::ClientOptions client_options() {
    kube::ClientOptions options;
    options.tries = 2;
    options.left_out = {{"metadata", "managedFields"}};
    return options;
  }

  void list_pods(inspect::Sighting& seen) {
    const kube::ListQuery query{.name_space = config_.name_space,
                                .label_selector = fmt::format("{}={}", cluster::kJobLabel, name_)};
    const auto listed = client_.list(
        kube::kPods, query,
        [&](const kube::Json& pod) {
          if (kube::meta_of(pod).controller_uid != seen.job.metadata.uid) return;
          if (auto worker = cluster::worker_of(pod)) seen.workers.push_back(std::move(*worker));
        },
        [&] { seen.workers.clear(); });
    if (!listed) refuse(fmt::format("pods of {}", name_), listed.error());
  }

  void list_events(inspect::Sighting& seen) {
    const kube::ListQuery query{
        .name_space = config_.name_space,
        .label_selector = {},
        .field_selector = fmt::format("involvedObject.kind=TrainingJob,involvedObject.uid={}",
                                      seen.job.metadata.uid)};
    const auto listed = client_.list(
        kube::kCoreEvents, query,
        [&](const kube::Json& event) {
          if (auto past = inspect::read_event(event)) seen.events.push_back(std::move(*past));
        },
        [&] { seen.events.clear(); });
    if (!listed) seen.events_unread = to_text(listed.error());
    std::ranges::stable_sort(seen.events, {}, &inspect::PastEvent::time);
  }

  bool is_still_there(const std::string& pod, const std::string& uid) {
    const auto object = client_.get(kube::kPods, config_.name_space, pod);
    if (!object && object.error().code == 404) return false;
    if (!object) refuse(fmt::format("pod {}", pod), object.error());
    return kube::meta_of(*object).uid == uid;
  }

  // The API server takes whole seconds, so some lines come twice.
  std::string log_target(const std::string& pod, const std::string& container, bool follow,
                         const std::string& last) const {
    std::string target = kube::path_of(kube::kPods, config_.name_space, pod, "log") +
                         "?timestamps=true&container=" + kube::percent_encoded(container);
    if (follow) target += "&follow=true";
    if (last.size() >= 19)
      target += "&sinceTime=" + kube::percent_encoded(last.substr(0, 19) + "Z");
    return target;
  }

  std::string container_of(const job::Worker& worker) {
    const std::string pod = name_ + "-" + job::short_name(worker.id.role, worker.id.index);
    const auto object = client_.get(kube::kPods, config_.name_space, pod);
    std::string name;
    if (object)
      name = cluster::text_at(cluster::member(cluster::member(*object, "metadata"), "annotations"),
                              cluster::kTrainerAnnotation);
    return name.empty() ? std::string(contract::kTrainerContainer) : name;
  }

  const std::string name_;
  const kube::Config config_;
  kube::HttpTransport transport_;
  kube::Client client_;
};

}  // namespace

std::unique_ptr<JobSight> make_cluster_sight(const SightOptions& options) {
  return std::make_unique<ClusterSight>(options);
}

}  // namespace coxswain
