#include "trainer/net/network.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include <boost/asio/ssl/context.hpp>

#include "trainer/contract/error.h"
#include "trainer/net/link.h"
#include "trainer/net/psk.h"

namespace coxswain::net {

namespace {

namespace asio = boost::asio;
namespace ssl = boost::asio::ssl;
using asio::use_awaitable;
using boost::system::error_code;
using boost::system::system_error;
using Tcp = asio::ip::tcp;
using Nanoseconds = std::chrono::nanoseconds;

constexpr std::size_t kMostStrangers = 64;  // that have called and proved nothing yet
constexpr int kMostHandlers = 64;           // of one poll
constexpr Nanoseconds kShortestPause = std::chrono::milliseconds(20);

// Of sealed bytes, each way: records of 16 KiB, as many as 256 KiB make (more are no faster), and
// fewer where there are so many links that all together would take over 6 MiB.
long sealed_bytes_of(int num_links) {
  return std::clamp((6L << 20) / (2 * std::max(num_links, 1)), 36L << 10, 288L << 10);
}

}  // namespace

std::string to_text(const Address& address) {
  const bool is_v6 = address.host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", is_v6 ? "[" : "", address.host, is_v6 ? "]" : "", address.port);
}

struct Network::State {
  State(NetworkOptions given, NetworkEvents& listener)
      : options(std::move(given)),
        events(listener),
        key{"coxswain " + options.hello.job, options.secret},
        sealed_bytes(sealed_bytes_of(options.hello.world_size)) {
    use_preshared_key(tls.native_handle(), key);
  }

  // Listening.
  void listen();
  asio::awaitable<void> accept();
  asio::awaitable<void> serve(LinkPointer link);
  asio::awaitable<void> greet_caller(const LinkPointer& link);

  // Calling.
  asio::awaitable<void> call(Address address);
  asio::awaitable<std::optional<Refusal>> try_call(Address address, LinkPointer link);
  asio::awaitable<Refusal> greet_answerer(const LinkPointer& link);

  // Both.
  LinkPointer make_link();
  std::optional<Refusal> consider(const LinkPointer& link, const Hello& theirs);
  void start(const LinkPointer& link);
  asio::awaitable<void> read_frames(LinkPointer link);
  asio::awaitable<void> take_message(Link& link, FrameHead head);
  void enqueue(const LinkPointer& link, Link::Outgoing frame);
  asio::awaitable<void> write_frames(LinkPointer link);
  void end(Link& link, const std::string& why);

  LinkPointer find(LinkId id) const {
    const auto found = links.find(id);
    return found == links.end() ? nullptr : found->second;
  }

  const NetworkOptions options;
  NetworkEvents& events;
  const PresharedKey key;
  const long sealed_bytes;
  asio::io_context io{1};
  ssl::context tls{ssl::context::tls};
  Tcp::acceptor acceptor{io};
  Tcp::resolver resolver{io};
  LinkId last_link = 0;
  bool dials = true;
  std::set<std::string> called;         // and not reached yet
  std::map<LinkId, LinkPointer> links;  // that were admitted
  std::deque<LinkPointer> strangers;    // that called and were not, oldest first
};

void Network::State::listen() {
  try {
    if (options.descriptor >= 0) {
      sockaddr_storage address{};
      socklen_t length = sizeof address;
      getsockname(options.descriptor, reinterpret_cast<sockaddr*>(&address), &length);
      acceptor.assign(address.ss_family == AF_INET6 ? Tcp::v6() : Tcp::v4(), options.descriptor);
    } else {
      error_code no_v6;
      acceptor.open(Tcp::v6(), no_v6);
      if (no_v6) acceptor.open(Tcp::v4());
      acceptor.set_option(Tcp::acceptor::reuse_address(true));
      if (!no_v6) acceptor.set_option(asio::ip::v6_only(false));
      acceptor.bind({no_v6 ? Tcp::v4() : Tcp::v6(), static_cast<std::uint16_t>(options.port)});
    }
    acceptor.listen();
  } catch (const system_error& error) {
    throw Error(ExitCode::kPeersMissing, fmt::format("[net] cannot listen on port {}: {}",
                                                     options.port, error.code().message()));
  }
  asio::co_spawn(io, accept(), asio::detached);
}

asio::awaitable<void> Network::State::accept() {
  while (acceptor.is_open()) {
    const LinkPointer link = make_link();
    error_code error;
    co_await acceptor.async_accept(link->socket(), asio::redirect_error(use_awaitable, error));
    if (error) {
      if (!acceptor.is_open()) co_return;
      asio::steady_timer pause(io, kShortestPause);  // too many files open: that may pass
      co_await pause.async_wait(asio::redirect_error(use_awaitable, error));
      continue;
    }
    if (strangers.size() == kMostStrangers) {
      strangers.front()->close();
      strangers.pop_front();
    }
    strangers.push_back(link);
    asio::co_spawn(io, serve(link), asio::detached);
  }
}

asio::awaitable<void> Network::State::serve(LinkPointer link) {
  const GreetingDeadline deadline(link, options.greeting_deadline);
  std::string why;
  try {
    co_await greet_caller(link);
  } catch (const system_error& error) {
    why = in_words(error.code());
  } catch (const Error& error) {
    why = error.what();
  }
  std::erase(strangers, link);
  if (!why.empty()) {
    end(*link, why);
    co_return;
  }
  start(link);
}

// Until the caller has taken the welcome.
asio::awaitable<void> Network::State::greet_caller(const LinkPointer& link) {
  co_await link->stream.prove_key(tls.native_handle(), /*is_caller=*/false, sealed_bytes);
  std::erase(strangers, link);
  const FrameHead head = co_await link->read_head();
  if (head.kind != FrameKind::kHello) out_of_turn();
  const auto theirs = hello_of(co_await link->read_text(head.length));
  if (!theirs) throw Error(ExitCode::kPeerLost, "[net] a hello that is none");
  if (const auto refusal = consider(link, *theirs)) {
    co_await link->write_text(FrameKind::kRefusal, to_json(*refusal));
    throw Error(ExitCode::kPeerLost, refusal->why);
  }
  co_await link->write_text(FrameKind::kWelcome, to_json(options.hello));
  if (!options.encrypt) link->stream.go_on_in_clear();
  if ((co_await link->read_head()).kind != FrameKind::kReady) out_of_turn();
  link->require_open();
}

asio::awaitable<void> Network::State::call(Address address) {
  for (Nanoseconds pause = kShortestPause; dials;
       pause = std::min(2 * pause, options.longest_pause)) {
    const LinkPointer link = make_link();
    const auto refusal = co_await try_call(address, link);
    if (!refusal) {
      called.erase(to_text(address));
      start(link);
      co_return;
    }
    end(*link, refusal->why);
    events.not_reached(address, *refusal);
    if (refusal->code != ExitCode::kPeersMissing) co_return;
    asio::steady_timer timer(io, pause);
    co_await timer.async_wait(use_awaitable);
  }
}

// Nullopt: the link has joined.
asio::awaitable<std::optional<Refusal>> Network::State::try_call(Address address,
                                                                 LinkPointer link) {
  const GreetingDeadline deadline(link, options.greeting_deadline);
  std::optional<Refusal> refusal;
  try {
    const auto places =
        co_await resolver.async_resolve(address.host, std::to_string(address.port), use_awaitable);
    co_await asio::async_connect(link->socket(), places, use_awaitable);
    co_await link->stream.prove_key(tls.native_handle(), /*is_caller=*/true, sealed_bytes);
    co_await link->write_text(FrameKind::kHello, to_json(options.hello));
    refusal = co_await greet_answerer(link);
    if (refusal->why.empty()) refusal.reset();
  } catch (const system_error& error) {
    refusal = Refusal{in_words(error.code()), ExitCode::kPeersMissing};
  } catch (const Error& error) {
    refusal = Refusal{error.what(), ExitCode::kPeersMissing};
  }
  co_return refusal;
}

// Until this process has taken the welcome; a refusal without words: it has.
asio::awaitable<Refusal> Network::State::greet_answerer(const LinkPointer& link) {
  const FrameHead head = co_await link->read_head();
  const std::string text = co_await link->read_text(head.length);
  if (head.kind == FrameKind::kRefusal) {
    const auto refusal = refusal_of(text);
    if (!refusal) out_of_turn();
    co_return *refusal;
  }
  const auto theirs = hello_of(text);
  if (head.kind != FrameKind::kWelcome || !theirs) out_of_turn();
  if (const auto refusal = consider(link, *theirs)) co_return *refusal;
  if (!options.encrypt) link->stream.go_on_in_clear();
  co_await link->write_text(FrameKind::kReady, "");
  link->require_open();
  co_return Refusal{};
}

LinkPointer Network::State::make_link() {
  const auto link = std::make_shared<Link>(io);
  link->id = ++last_link;
  return link;
}

std::optional<Refusal> Network::State::consider(const LinkPointer& link, const Hello& theirs) {
  if (auto refusal = judge(options.hello, theirs)) return refusal;
  if (auto refusal = events.admit(link->id, theirs)) return refusal;
  link->is_admitted = true;
  links.emplace(link->id, link);
  return std::nullopt;
}

void Network::State::start(const LinkPointer& link) {
  link->is_greeting = false;
  events.joined(link->id);
  asio::co_spawn(io, read_frames(link), asio::detached);
}

asio::awaitable<void> Network::State::read_frames(LinkPointer link) {
  std::string why;
  try {
    while (!link->heard_goodbye) {
      const FrameHead head = co_await link->read_head();
      if (head.kind == FrameKind::kMessage) {
        co_await take_message(*link, head);
      } else if (head.kind == FrameKind::kBeat) {
        events.heard(link->id);
      } else if (head.kind == FrameKind::kGoodbye) {
        link->heard_goodbye = true;
      } else {
        out_of_turn();
      }
      co_await asio::post(io, use_awaitable);  // others' turn: there may be more to read for ever
      link->require_open();
    }
  } catch (const system_error& error) {
    why = in_words(error.code());
  } catch (const Error& error) {
    why = error.what();
  }
  if (!why.empty() || link->said_goodbye) end(*link, why);
}

asio::awaitable<void> Network::State::take_message(Link& link, FrameHead head) {
  auto pieces = events.place(link.id, head);
  while (!pieces) {
    link.waits = true;
    link.place_found.expires_at(asio::steady_timer::time_point::max());
    error_code cancelled;
    co_await link.place_found.async_wait(asio::redirect_error(use_awaitable, cancelled));
    link.waits = false;
    link.require_open();
    pieces = events.place(link.id, head);
  }
  std::vector<asio::mutable_buffer> buffers;
  for (const auto& piece : *pieces) buffers.emplace_back(piece.data(), piece.size());
  co_await link.stream.read(std::move(buffers));
  link.require_open();
  events.received(link.id, head);
}

void Network::State::enqueue(const LinkPointer& link, Link::Outgoing frame) {
  link->queue.push_back(std::move(frame));
  if (link->is_writing) return;
  link->is_writing = true;
  asio::co_spawn(io, write_frames(link), asio::detached);
}

asio::awaitable<void> Network::State::write_frames(LinkPointer link) {
  std::string why;
  try {
    while (!link->queue.empty()) {
      link->require_open();  // the memory of a link that is gone is the caller's again
      const auto written = co_await link->write_some();
      for (const Link::Outgoing& frame : written) {
        if (frame.head.kind == FrameKind::kMessage) events.sent(link->id, frame.id);
        if (frame.head.kind == FrameKind::kGoodbye) link->said_goodbye = true;
      }
    }
  } catch (const system_error& error) {
    why = in_words(error.code());
  }
  link->is_writing = false;
  if (!why.empty() || (link->said_goodbye && link->heard_goodbye)) end(*link, why);
}

void Network::State::end(Link& link, const std::string& why) {
  link.close();
  links.erase(link.id);
  if (link.is_admitted && !link.is_dropped) events.left(link.id, why);
  link.is_admitted = false;
}

Network::Network(NetworkOptions options, NetworkEvents& events)
    : state_(std::make_unique<State>(std::move(options), events)) {
  if (state_->options.port >= 0 || state_->options.descriptor >= 0) state_->listen();
}

Network::~Network() = default;

int Network::port() const { return state_->acceptor.local_endpoint().port(); }

void Network::dial(const Address& address) {
  if (!state_->called.insert(to_text(address)).second) return;
  asio::co_spawn(state_->io, state_->call(address), asio::detached);
}

void Network::stop_dialing() { state_->dials = false; }

void Network::stop_listening() {
  error_code ignored;
  state_->acceptor.close(ignored);
  for (const LinkPointer& stranger : state_->strangers) stranger->close();
}

void Network::send(LinkId link, const Label& label, Pieces pieces, std::uint64_t id) {
  const LinkPointer found = state_->find(link);
  if (!found) return;  // left() has been told
  FrameHead head{.kind = FrameKind::kMessage, .label = label};
  for (const auto& piece : pieces) head.length += piece.size();
  state_->enqueue(found, {head, std::move(pieces), id});
}

void Network::send_beat(LinkId link) {
  const LinkPointer found = state_->find(link);
  if (found && !found->is_writing) state_->enqueue(found, {.head = {}, .pieces = {}});
}

void Network::say_goodbye(LinkId link) {
  const LinkPointer found = state_->find(link);
  if (found) state_->enqueue(found, {.head = {.kind = FrameKind::kGoodbye}, .pieces = {}});
}

void Network::drop(LinkId link) {
  const LinkPointer found = state_->find(link);
  if (!found) return;
  found->is_dropped = true;
  state_->end(*found, "");
}

void Network::resume(LinkId link) {
  const LinkPointer found = state_->find(link);
  if (found && found->waits) found->place_found.cancel();
}

bool Network::waits(LinkId link) const {
  const LinkPointer found = state_->find(link);
  return found && found->waits;
}

bool Network::poll() {
  state_->io.restart();
  int handled = 0;
  while (handled < kMostHandlers && state_->io.poll_one() > 0) ++handled;
  return handled > 0;
}

void Network::wait(Nanoseconds limit) {
  state_->io.restart();
  state_->io.run_one_for(limit);
}

void Network::wake() {
  asio::post(state_->io, [] {});
}

}  // namespace coxswain::net
