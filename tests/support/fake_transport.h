#pragma once

#include <algorithm>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "operator/kube/transport.h"

namespace coxswain::test {

// Answers as the test says, and keeps what was asked. Thread-safe.
class FakeTransport : public kube::Transport {
 public:
  // What a stream sends, piece by piece, and how it ends.
  struct Stream {
    std::vector<std::string> pieces;
    kube::Response end{.status = 200, .retry_after = {}, .body = {}};
  };
  std::function<kube::Response(const kube::Request&)> on_send = [](const kube::Request&) {
    return kube::Response{.status = 200, .retry_after = {}, .body = "{}"};
  };
  std::function<Stream(const kube::Request&)> on_stream = [](const kube::Request&) {
    return Stream{};
  };

  // Answers in this order; the last one again and again.
  void script(std::vector<kube::Response> answers) {
    on_send = [answers = std::move(answers), next = std::size_t{0}](const kube::Request&) mutable {
      const std::size_t index = std::min(next++, answers.size() - 1);
      return answers[index];
    };
  }

  kube::Response send(const kube::Request& request) override {
    const std::lock_guard lock(mutex_);
    requests_.push_back(request);
    return on_send(request);
  }

  kube::Response stream(const kube::Request& request, std::stop_token stop,
                        const std::function<bool(std::string_view)>& on_data) override {
    Stream stream;
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(request);
      stream = on_stream(request);
    }
    for (const std::string& piece : stream.pieces)
      if (stop.stop_requested() || !on_data(piece))
        return {.status = 200, .retry_after = {}, .body = {}};
    return stream.end;
  }

  std::vector<kube::Request> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  mutable std::mutex mutex_;
  // Guarded by mutex_:
  std::vector<kube::Request> requests_;
};

}  // namespace coxswain::test
