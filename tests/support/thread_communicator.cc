#include "tests/support/thread_communicator.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <thread>

namespace coxswain::test {

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kBeatTag = -1;

struct Message {
  int from = 0;
  int tag = 0;
  std::vector<std::byte> bytes;
  Clock::time_point arrives;
};

struct Inbox {
  std::mutex mutex;
  std::deque<Message> messages;
  bool stopped = false;
};

}  // namespace

struct ThreadNetworkState {
  ThreadNetworkState(int size, std::chrono::nanoseconds delay, std::vector<int> of_ranks)
      : message_delay(delay),
        inboxes(static_cast<std::size_t>(size)),
        machines(std::move(of_ranks)) {
    machines.resize(inboxes.size(), 0);
  }
  Inbox& of(int rank) { return inboxes[static_cast<std::size_t>(rank)]; }

  bool is_stopped(int rank) {
    const std::lock_guard lock(of(rank).mutex);
    return of(rank).stopped;
  }

  std::chrono::nanoseconds message_delay;
  std::vector<Inbox> inboxes;
  std::vector<int> machines;                         // by rank
  std::mutex mutex;                                  // guards what follows
  std::map<std::pair<int, int>, std::size_t> bytes;  // by machines
};

namespace {

class ThreadWire final : public comm::Wire {
 public:
  ThreadWire(std::shared_ptr<ThreadNetworkState> state, int rank)
      : state_(std::move(state)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(state_->inboxes.size()); }

  std::vector<int> machines() const override { return state_->machines; }

  void send(int peer, int tag, const comm::Pieces& pieces, comm::MessageId id) override {
    Message message{rank_, tag, {}, Clock::now() + state_->message_delay};
    for (const auto& piece : pieces) {
      message.bytes.insert(message.bytes.end(), piece.begin(), piece.end());
    }
    {
      const std::lock_guard lock(state_->mutex);
      state_->bytes[{machine_of(rank_), machine_of(peer)}] += message.bytes.size();
    }
    deliver(peer, std::move(message));
    sent_.push_back(id);
  }

  void receive(int peer, int tag, const comm::Pieces& pieces, comm::MessageId id) override {
    expected_.push_back({peer, tag, pieces, id});
  }

  void send_beats() override {
    for (int peer = 0; peer < size(); ++peer) {
      if (peer != rank_) deliver(peer, {rank_, kBeatTag, {}, Clock::now()});
    }
  }

  comm::News poll() override {
    comm::News news;
    take_arrived(news.finished, news.beats);
    if (news.finished.empty()) std::this_thread::yield();
    return news;
  }

  void close() override {}

 private:
  struct Expected {
    int from = 0;
    int tag = 0;
    comm::Pieces pieces;
    comm::MessageId id = 0;
  };

  int machine_of(int rank) const { return state_->machines[static_cast<std::size_t>(rank)]; }

  void take_arrived(std::vector<comm::MessageId>& finished, std::vector<int>& beats) {
    Inbox& inbox = state_->of(rank_);
    const std::lock_guard lock(inbox.mutex);
    if (inbox.stopped) return;
    finished.insert(finished.end(), sent_.begin(), sent_.end());
    sent_.clear();
    const auto now = Clock::now();
    for (auto message = inbox.messages.begin(); message != inbox.messages.end();) {
      message = message->arrives <= now && accept(*message, finished, beats)
                    ? inbox.messages.erase(message)
                    : message + 1;
    }
  }

  void deliver(int peer, Message message) {
    if (state_->is_stopped(rank_)) return;
    Inbox& inbox = state_->of(peer);
    const std::lock_guard lock(inbox.mutex);
    inbox.messages.push_back(std::move(message));
  }

  bool accept(const Message& message, std::vector<comm::MessageId>& finished,
              std::vector<int>& beats) {
    if (message.tag == kBeatTag) {
      beats.push_back(message.from);
      return true;
    }
    const auto expected = std::find_if(expected_.begin(), expected_.end(), [&](const Expected& e) {
      return e.from == message.from && e.tag == message.tag;
    });
    if (expected == expected_.end()) return false;
    copy(message.bytes, expected->pieces);
    finished.push_back(expected->id);
    expected_.erase(expected);
    return true;
  }

  static void copy(const std::vector<std::byte>& bytes, const comm::Pieces& pieces) {
    std::size_t length = 0;
    for (const auto& piece : pieces) length += piece.size();
    if (length != bytes.size()) {
      throw Error(ExitCode::kInternal, "[comm] a message of another length was expected");
    }
    std::size_t at = 0;
    for (const auto& piece : pieces) {
      std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), piece.size(), piece.begin());
      at += piece.size();
    }
  }

  std::shared_ptr<ThreadNetworkState> state_;
  int rank_;
  std::vector<comm::MessageId> sent_;
  std::deque<Expected> expected_;
};

}  // namespace

ThreadNetwork::ThreadNetwork(int size, std::chrono::nanoseconds message_delay,
                             std::vector<int> machines)
    : state_(std::make_shared<ThreadNetworkState>(size, message_delay, std::move(machines))) {}

ThreadNetwork::~ThreadNetwork() = default;

std::unique_ptr<comm::Wire> ThreadNetwork::open(int rank) {
  return std::make_unique<ThreadWire>(state_, rank);
}

std::unique_ptr<comm::Communicator> ThreadNetwork::join(int rank, comm::WiredOptions options) {
  return comm::make_wired_communicator([this, rank] { return open(rank); }, std::move(options));
}

std::size_t ThreadNetwork::bytes_between(int machine, int other) const {
  const std::lock_guard lock(state_->mutex);
  return state_->bytes[{machine, other}];
}

void ThreadNetwork::stop(int rank) {
  const std::lock_guard lock(state_->of(rank).mutex);
  state_->of(rank).stopped = true;
}

void run_ranks(int size, const std::function<void(comm::Communicator&)>& body) {
  ThreadNetwork network(size);
  run_ranks(size, [&](int rank) { return network.join(rank); }, body);
}

void run_ranks(int size, const Join& join, const std::function<void(comm::Communicator&)>& body) {
  std::mutex mutex;
  std::exception_ptr first_failure;
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          const auto communicator = join(rank);
          body(*communicator);
          communicator->finish();
        } catch (...) {
          const std::lock_guard lock(mutex);
          if (!first_failure) first_failure = std::current_exception();
        }
      });
    }
  }
  if (first_failure) std::rethrow_exception(first_failure);
}

}  // namespace coxswain::test
