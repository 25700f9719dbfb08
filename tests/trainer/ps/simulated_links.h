#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "trainer/contract/error.h"
#include "trainer/net/network.h"

namespace coxswain::ps {

// The connections of several processes in one, with everything that is under way: what is next is
// drawn by chance. What is sent is read when it is delivered, as late as can be.
class SimulatedNetwork {
 public:
  explicit SimulatedNetwork(unsigned seed) : random_(seed) {}

  // Value. A message, as it is sent and received. Its ends are never given twice.
  struct Passage {
    const net::Hello& from;
    const net::Hello& to;
    net::LinkId from_end;
    net::LinkId to_end;
    const net::FrameHead& head;
    const net::Pieces& pieces;
  };
  // To break the protocol: told of what is sent, it may lose it (false), and forge more.
  std::function<bool(const Passage&)> meddle = [](const Passage&) { return true; };
  // As whom a process is taken that calls.
  std::function<net::Hello(const net::Hello&)> disguise = [](const net::Hello& hello) {
    return hello;
  };
  // To see whether it holds: told of what was received.
  std::function<void(const Passage&)> watch = [](const Passage&) {};
  // The first law that was broken.
  std::optional<std::string> breach;

  bool has(net::LinkId end) const { return ends_.contains(end); }
  // As if the other end of the connection had sent it.
  void forge(net::LinkId to_end, const net::FrameHead& head, const net::Pieces& pieces = {}) {
    if (has(to_end)) ends_.at(to_end).inbox.push_back({head, pieces});
  }

  // A process, and the links that are its own. A second one of the same address takes the place of
  // the first, whose connections break.
  net::Links& add(const std::string& address, const net::Hello& hello, net::NetworkEvents& events) {
    remove(address);
    auto process = std::make_unique<Process>(*this, address, hello, events);
    net::Links& links = *process;
    processes_[address] = std::move(process);
    return links;
  }

  // It is gone, with all that it had not said yet.
  void remove(const std::string& address) {
    const auto found = processes_.find(address);
    if (found == processes_.end()) return;
    Process* gone = found->second.get();
    std::vector<net::LinkId> its;
    for (const auto& [id, end] : ends_)
      if (end.of == gone) its.push_back(id);
    for (const net::LinkId id : its) {
      const net::LinkId other = ends_.at(id).other;
      ends_.erase(id);
      cut(other, "it closed the connection");
    }
    std::erase_if(calls_, [gone](const Call& call) { return call.from == gone; });
    graveyard_.push_back(std::move(found->second));
    processes_.erase(found);
  }

  // Its connections break, and nobody finds it under its address any more; but it lives.
  void cut_off(const std::string& address) {
    const auto found = processes_.find(address);
    if (found == processes_.end()) return;
    const std::unique_ptr<Process>& process =
        processes_[address + ", cut off " + std::to_string(++last_link_)] =
            std::move(found->second);
    processes_.erase(address);
    std::vector<net::LinkId> its;
    for (const auto& [id, end] : ends_)
      if (end.of == process.get()) its.push_back(id);
    for (const net::LinkId id : its) break_link(id);
  }

  // Nothing gets to it or away from it, until it thaws.
  void freeze(const std::string& address) { frozen_.insert(address); }
  void thaw(const std::string& address) { frozen_.erase(address); }

  // Breaks some connection.
  void break_one() {
    if (ends_.empty()) return;
    break_link(std::next(ends_.begin(), draw(ends_.size()))->first);
  }

  // One thing that is under way happens. False: nothing is.
  bool happen() {
    std::vector<net::LinkId> ready;
    for (auto& [id, end] : ends_)
      if (!end.inbox.empty() && !end.waits && !is_frozen(end)) ready.push_back(id);
    std::vector<std::size_t> calls;
    for (std::size_t i = 0; i < calls_.size(); ++i)
      if (can_connect(calls_[i])) calls.push_back(i);
    const std::size_t count = ready.size() + calls.size();
    if (count == 0) return false;
    const auto chosen = static_cast<std::size_t>(draw(count));
    if (chosen < ready.size()) {
      deliver(ready[chosen]);
    } else {
      const auto call = calls_.begin() + static_cast<std::ptrdiff_t>(calls[chosen - ready.size()]);
      const Call one = *call;
      calls_.erase(call);
      connect(one);
    }
    return true;
  }

  std::ptrdiff_t draw(std::size_t count) { return static_cast<std::ptrdiff_t>(random_() % count); }

 private:
  struct Outgoing {
    net::FrameHead head;
    net::Pieces pieces;
  };
  class Process;
  // One side of a connection.
  struct End {
    Process* of;
    net::LinkId other;
    std::deque<Outgoing> inbox;  // from the other side
    bool waits = false;
  };
  struct Call {
    Process* from;
    std::string to;
  };

  class Process : public net::Links {
   public:
    Process(SimulatedNetwork& network, std::string its_address, net::Hello its_hello,
            net::NetworkEvents& its_events)
        : address(std::move(its_address)),
          hello(std::move(its_hello)),
          events(its_events),
          network_(network) {}
    void dial(const net::Address& to) override { network_.calls_.push_back({this, to_text(to)}); }
    void send(net::LinkId link, const net::Label& label, net::Pieces pieces,
              std::uint64_t) override {
      const auto end = network_.ends_.find(link);
      if (end == network_.ends_.end()) return;
      net::FrameHead head{.kind = net::FrameKind::kMessage, .label = label};
      for (const auto& piece : pieces) head.length += piece.size();
      End& other = network_.ends_.at(end->second.other);
      if (network_.meddle({hello, other.of->hello, link, end->second.other, head, pieces}))
        other.inbox.push_back({head, std::move(pieces)});
    }
    void send_beat(net::LinkId link) override {
      const auto end = network_.ends_.find(link);
      if (end == network_.ends_.end()) return;
      auto& inbox = network_.ends_.at(end->second.other).inbox;
      if (inbox.empty()) inbox.push_back({net::FrameHead{.kind = net::FrameKind::kBeat}, {}});
    }
    void drop(net::LinkId link) override {
      const auto end = network_.ends_.find(link);
      if (end == network_.ends_.end()) return;
      const net::LinkId other = end->second.other;
      network_.ends_.erase(end);
      network_.cut(other, "it closed the connection");
    }
    void resume(net::LinkId link) override {
      const auto end = network_.ends_.find(link);
      if (end != network_.ends_.end()) end->second.waits = false;
    }
    bool waits(net::LinkId link) const override {
      const auto end = network_.ends_.find(link);
      return end != network_.ends_.end() && end->second.waits;
    }

    const std::string address;
    const net::Hello hello;
    net::NetworkEvents& events;

   private:
    SimulatedNetwork& network_;
  };

  // This side hears that it is over.
  void cut(net::LinkId id, const std::string& why) {
    const auto end = ends_.find(id);
    if (end == ends_.end()) return;
    Process* of = end->second.of;
    ends_.erase(end);
    of->events.left(id, why);
  }

  void break_link(net::LinkId one) {
    const net::LinkId other = ends_.at(one).other;
    cut(one, "it broke");
    cut(other, "it broke");
  }

  // A place is for the newest that was ever taken for it.
  void check_place(const Process& answerer, const net::Hello& caller) {
    int& newest = newest_[{&answerer, caller.role, caller.rank}];
    if (caller.incarnation < newest && !breach)
      breach = name_of(answerer.hello) + " took a stale " + name_of(caller);
    newest = std::max(newest, caller.incarnation);
  }

  bool is_frozen(const End& end) const {
    return frozen_.contains(end.of->address) || frozen_.contains(ends_.at(end.other).of->address);
  }

  bool can_connect(const Call& call) const {
    return processes_.contains(call.to) && !frozen_.contains(call.to) &&
           !frozen_.contains(call.from->address);
  }

  void connect(const Call& call) {
    const auto to = processes_.find(call.to);
    const net::LinkId theirs = ++last_link_, mine = ++last_link_;
    Process& answerer = *to->second;
    if (const auto refusal = answerer.events.admit(theirs, disguise(call.from->hello))) {
      if (refusal->code != ExitCode::kPeersMissing)
        call.from->events.not_reached({call.to, 0}, *refusal);
      else
        calls_.push_back(call);
      return;
    }
    check_place(answerer, call.from->hello);
    if (call.from->events.admit(mine, answerer.hello)) {
      answerer.events.left(theirs, "it was refused");
      calls_.push_back(call);
      return;
    }
    ends_[theirs] = {&answerer, mine, {}};
    ends_[mine] = {call.from, theirs, {}};
    answerer.events.joined(theirs);
    if (ends_.contains(mine)) call.from->events.joined(mine);
  }

  void deliver(net::LinkId id) {
    End& end = ends_.at(id);
    const Outgoing message = end.inbox.front();
    net::NetworkEvents& events = end.of->events;
    if (message.head.kind == net::FrameKind::kBeat) {
      end.inbox.pop_front();
      return events.heard(id);
    }
    const auto place = events.place(id, message.head);
    if (!place) {
      end.waits = true;
      return;
    }
    std::vector<std::byte> bytes;
    for (const auto& piece : message.pieces) bytes.insert(bytes.end(), piece.begin(), piece.end());
    const Process& sender = *ends_.at(end.other).of;
    watch({sender.hello, end.of->hello, end.other, id, message.head, message.pieces});
    auto from = bytes.begin();
    for (const auto& piece : *place) {
      std::copy_n(from, piece.size(), piece.begin());
      from += static_cast<std::ptrdiff_t>(piece.size());
    }
    end.inbox.pop_front();
    events.received(id, message.head);
  }

  std::mt19937 random_;
  net::LinkId last_link_ = 0;
  std::map<std::string, std::unique_ptr<Process>> processes_;
  std::vector<std::unique_ptr<Process>> graveyard_;
  std::map<net::LinkId, End> ends_;
  std::deque<Call> calls_;
  std::set<std::string> frozen_;                                        // addresses
  std::map<std::tuple<const Process*, std::string, int>, int> newest_;  // incarnation, of a place
};

}  // namespace coxswain::ps
