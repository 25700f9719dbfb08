#include "trainer/launch/far_endpoint.h"

#include <sys/eventfd.h>

#include <chrono>
#include <utility>

namespace coxswain::launch {

namespace {

constexpr std::chrono::milliseconds kAnswersWithin{1'500};  // who looks waits for 2 s

}  // namespace

FarEndpoint::FarEndpoint()
    : news_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      endpoint_("127.0.0.1", 0, [this](const std::string& path) { return ask(path); }) {}

FarEndpoint::~FarEndpoint() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

std::optional<FarEndpoint::Question> FarEndpoint::next() {
  eventfd_t ignored = 0;
  eventfd_read(news_.get(), &ignored);
  const std::lock_guard lock(mutex_);
  if (!std::exchange(is_untold_, false)) return std::nullopt;
  return question_;
}

void FarEndpoint::answer(int number, const std::string& body) {
  const std::lock_guard lock(mutex_);
  if (number != question_.number) return;
  answer_ = body;
  changed_.notify_all();
}

std::optional<contract::HttpResponse> FarEndpoint::ask(const std::string& path) {
  std::unique_lock lock(mutex_);
  question_ = {question_.number + 1, path};
  is_untold_ = true;
  answer_.reset();
  eventfd_write(news_.get(), 1);
  changed_.wait_for(lock, kAnswersWithin, [&] { return answer_ || closed_; });
  if (!answer_ || answer_->empty()) return std::nullopt;
  return contract::HttpResponse{.content_type = "application/json", .body = *answer_};
}

}  // namespace coxswain::launch
