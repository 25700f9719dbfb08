#include "trainer/net/link.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include <boost/asio/ssl/error.hpp>

#include "trainer/contract/error.h"

namespace coxswain::net {

namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using boost::system::system_error;

constexpr std::size_t kMostFrames = 16;  // of one write
constexpr std::size_t kEnoughBytes = std::size_t{64} << 10;

}  // namespace

Link::Link(asio::io_context& io)
    : stream(io), place_found(io, asio::steady_timer::time_point::max()) {}

void Link::close() {
  error_code ignored;
  socket().close(ignored);
  place_found.cancel();
}

void Link::require_open() {
  if (!socket().is_open()) throw system_error(asio::error::operation_aborted);
}

asio::awaitable<void> Link::write_text(FrameKind kind, const std::string& text) {
  FrameHead head;
  head.kind = kind;
  head.length = text.size();
  const HeadBytes bytes = encode(head);
  std::vector<asio::const_buffer> buffers = {asio::buffer(bytes), asio::buffer(text)};
  co_await stream.write(std::move(buffers));
}

asio::awaitable<FrameHead> Link::read_head() {
  HeadBytes bytes;
  co_await stream.read(std::vector<asio::mutable_buffer>(1, asio::buffer(bytes)));
  co_return decode(bytes);
}

asio::awaitable<std::string> Link::read_text(std::uint64_t length) {
  std::string text(length, '\0');
  co_await stream.read(std::vector<asio::mutable_buffer>(1, asio::buffer(text)));
  co_return text;
}

asio::awaitable<std::vector<Link::Outgoing>> Link::write_some() {
  std::array<HeadBytes, kMostFrames> heads;
  std::vector<asio::const_buffer> buffers;
  std::size_t frames = 0;
  const std::size_t most = std::min(queue.size(), heads.size());
  for (std::size_t bytes = 0; frames < most && bytes < kEnoughBytes; ++frames) {
    const Outgoing& frame = queue[frames];
    heads[frames] = encode(frame.head);
    buffers.push_back(asio::buffer(heads[frames]));
    for (const auto& piece : frame.pieces) buffers.emplace_back(piece.data(), piece.size());
    bytes += frame.head.length;
  }
  co_await stream.write(std::move(buffers));
  const auto end = queue.begin() + static_cast<std::ptrdiff_t>(frames);
  std::vector<Outgoing> written(std::make_move_iterator(queue.begin()),
                                std::make_move_iterator(end));
  queue.erase(queue.begin(), end);
  co_return written;
}

GreetingDeadline::GreetingDeadline(const LinkPointer& link, std::chrono::nanoseconds limit)
    : timer_(link->socket().get_executor(), limit) {
  timer_.async_wait([link](const error_code& error) {
    if (!error && link->is_greeting) link->close();
  });
}

void out_of_turn() { throw Error(ExitCode::kPeerLost, "[net] a frame out of turn"); }

std::string in_words(const error_code& error) {
  if (error == asio::error::eof || error == asio::error::connection_reset ||
      error == asio::error::broken_pipe)
    return "it closed the connection";
  if (error == asio::error::operation_aborted || error == asio::error::bad_descriptor)
    return "it did not answer in time";
  if (error.category() == asio::error::get_ssl_category())
    return fmt::format("it did not prove that it belongs to this job ({})", error.message());
  return error.message();
}

}  // namespace coxswain::net
