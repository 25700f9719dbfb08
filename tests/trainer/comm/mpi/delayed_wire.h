#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "trainer/comm/wire.h"

namespace coxswain::test {

// A wire whose messages end later than they do: a slow network. Heartbeats are on time.
class DelayedWire final : public comm::Wire {
 public:
  DelayedWire(std::unique_ptr<comm::Wire> wire, std::chrono::nanoseconds delay)
      : wire_(std::move(wire)), delay_(delay) {}

  int rank() const override { return wire_->rank(); }
  int size() const override { return wire_->size(); }
  void send(int peer, int tag, const comm::Pieces& pieces, comm::MessageId id) override {
    wire_->send(peer, tag, pieces, id);
  }
  void receive(int peer, int tag, const comm::Pieces& pieces, comm::MessageId id) override {
    wire_->receive(peer, tag, pieces, id);
  }
  void send_beats() override { wire_->send_beats(); }

  comm::News poll() override {
    const auto now = std::chrono::steady_clock::now();
    comm::News news = wire_->poll();
    for (const auto id : news.finished) held_.emplace_back(now + delay_, id);
    news.finished.clear();
    while (!held_.empty() && held_.front().first <= now) {
      news.finished.push_back(held_.front().second);
      held_.pop_front();
    }
    return news;
  }

  void close() override { wire_->close(); }

 private:
  std::unique_ptr<comm::Wire> wire_;
  std::chrono::nanoseconds delay_;
  std::deque<std::pair<std::chrono::steady_clock::time_point, comm::MessageId>> held_;
};

}  // namespace coxswain::test
