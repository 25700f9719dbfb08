#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "operator/kube/client.h"
#include "tests/operator/controller/objects.h"

namespace coxswain::test {

// An API server that answers what it was told to, in that order, and asks the test to stop when it
// has said all.
class ScriptedServer : public kube::Transport {
 public:
  struct Answer {
    int status = 200;
    std::string body;  // of a watch: its stream
    std::chrono::seconds lasts{0};
  };

  ScriptedServer& answer(int status, std::string body, std::chrono::seconds lasts = {}) {
    answers_.push_back({status, std::move(body), lasts});
    return *this;
  }
  ScriptedServer& list(std::uint64_t version, const std::vector<kube::Json>& items,
                       const std::string& continue_token = "") {
    kube::Json metadata = {{"resourceVersion", std::to_string(version)}};
    if (!continue_token.empty()) metadata["continue"] = continue_token;
    return answer(
        200,
        kube::Json{
            {"kind", "PodList"}, {"apiVersion", "v1"}, {"metadata", metadata}, {"items", items}}
            .dump());
  }
  ScriptedServer& watch(const std::vector<std::pair<std::string, kube::Json>>& events,
                        std::chrono::seconds lasts = {}) {
    std::string lines;
    for (const auto& [type, object] : events)
      lines += kube::Json{{"type", type}, {"object", object}}.dump() + "\n";
    return answer(200, lines, lasts);
  }
  ScriptedServer& fail(int code, const std::string& reason) {
    return answer(code, kube::Json{{"kind", "Status"}, {"code", code}, {"reason", reason}}.dump());
  }

  kube::Response send(const kube::Request& request) override {
    const Answer answer = next(request);
    return {answer.status, {}, answer.body};
  }
  kube::Response stream(const kube::Request& request, std::stop_token stop,
                        const std::function<bool(std::string_view)>& on_data) override {
    const Answer answer = next(request);
    if (answer.status != 200) return {answer.status, {}, answer.body};
    std::size_t begin = 0;
    while (begin < answer.body.size() && !stop.stop_requested()) {
      const std::size_t end = answer.body.find('\n', begin) + 1;
      if (!on_data(answer.body.substr(begin, end - begin))) break;
      begin = end;
    }
    return {200, {}, ""};
  }

  std::vector<std::string> targets;  // what was asked for
  std::chrono::seconds now{0};       // moves as watches last
  std::stop_source all_is_said;

 private:
  Answer next(const kube::Request& request) {
    targets.push_back(request.target);
    if (answers_.empty()) {
      all_is_said.request_stop();
      return {0, "", {}};
    }
    Answer answer = std::move(answers_.front());
    answers_.pop_front();
    now += answer.lasts;
    return answer;
  }

  std::deque<Answer> answers_;
};

}  // namespace coxswain::test
