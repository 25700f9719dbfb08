#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "trainer/contract/worker/child_process.h"
#include "trainer/contract/worker/http_endpoint.h"

namespace coxswain::launch {

// Resource. The endpoint of a rank on another host, for those who look on this machine: what is
// asked of it waits, 1.5 s at most, for whoever talks to the host to pass question and answer on.
// Throws Error (70) when no port can be had.
class FarEndpoint {
 public:
  struct Question {
    int number = 0;
    std::string path;
  };

  FarEndpoint();
  ~FarEndpoint();

  std::uint16_t port() const { return endpoint_.port(); }  // on 127.0.0.1
  int descriptor() const { return news_.get(); }           // readable when a question waits

  std::optional<Question> next();  // the one that waits, once
  // What the rank answered; empty: nothing. Of a question that waits no more it is forgotten.
  void answer(int number, const std::string& body);

 private:
  std::optional<contract::HttpResponse> ask(const std::string& path);

  contract::FileDescriptor news_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Question question_;                  // guarded by mutex_
  bool is_untold_ = false;             // guarded by mutex_
  bool closed_ = false;                // guarded by mutex_
  std::optional<std::string> answer_;  // guarded by mutex_
  contract::HttpEndpoint endpoint_;    // last: its thread uses the members above
};

}  // namespace coxswain::launch
