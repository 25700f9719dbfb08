#include "trainer/net/stream.h"

#include <openssl/err.h>

#include <algorithm>
#include <new>

#include <boost/asio/ssl/error.hpp>

namespace coxswain::net {

namespace asio = boost::asio;
using asio::use_awaitable;
using boost::system::error_code;
using boost::system::system_error;

namespace {

// Of one record (RFC 8446, 5.1).
constexpr std::size_t kRecord = std::size_t{16} << 10;

template <class Buffer>
void drop_front(std::vector<Buffer>& buffers, std::size_t bytes) {
  auto at = buffers.begin();
  for (; at != buffers.end() && bytes >= at->size(); ++at) bytes -= at->size();
  buffers.erase(buffers.begin(), at);
  if (!buffers.empty()) buffers.front() += bytes;
}

// Moves bytes between `bio` and the socket; what OpenSSL is to be told.
template <class Move>
int move_now(BIO* bio, error_code& failure, int direction, Move move) {
  BIO_clear_retry_flags(bio);
  error_code error;
  const auto moved = static_cast<int>(move(error));
  if (!error) return moved;
  if (error == asio::error::would_block || error == asio::error::try_again) {
    BIO_set_flags(bio, direction | BIO_FLAGS_SHOULD_RETRY);
  } else {
    failure = error;
  }
  return -1;
}

// Puts a buffer of many records before OpenSSL's way to the socket.
BIO* buffered(BIO* to_socket, long bytes) {
  BIO* buffer = BIO_new(BIO_f_buffer());
  if (buffer == nullptr || BIO_set_buffer_size(buffer, bytes) != 1) throw std::bad_alloc();
  BIO_up_ref(to_socket);  // whoever sets the result lets go of this one
  return BIO_push(buffer, to_socket);
}

}  // namespace

BIO* Stream::make_bio() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket of Asio");
    BIO_meth_set_read(made, read_socket);
    BIO_meth_set_write(made, write_socket);
    BIO_meth_set_ctrl(made, [](BIO*, int command, long, void*) -> long {
      return command == BIO_CTRL_FLUSH ? 1 : 0;
    });
    return made;
  }();
  BIO* bio = BIO_new(method);
  if (bio == nullptr) throw std::bad_alloc();
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  return bio;
}

int Stream::read_socket(BIO* bio, char* to, int size) {
  Stream& stream = of(bio);
  return move_now(bio, stream.failure_, BIO_FLAGS_READ, [&](error_code& error) {
    return stream.socket_.read_some(asio::buffer(to, static_cast<std::size_t>(size)), error);
  });
}

int Stream::write_socket(BIO* bio, const char* from, int size) {
  Stream& stream = of(bio);
  return move_now(bio, stream.failure_, BIO_FLAGS_WRITE, [&](error_code& error) {
    return stream.socket_.write_some(asio::buffer(from, static_cast<std::size_t>(size)), error);
  });
}

asio::awaitable<void> Stream::prove_key(SSL_CTX* context, bool is_caller,
                                        long buffer_bytes) {
  socket_.set_option(asio::ip::tcp::no_delay(true));
  socket_.non_blocking(true);
  ssl_.reset(SSL_new(context));
  if (!ssl_) throw std::bad_alloc();
  SSL_set_bio(ssl_.get(), make_bio(), make_bio());
  if (is_caller) {
    SSL_set_connect_state(ssl_.get());
  } else {
    SSL_set_accept_state(ssl_.get());
  }
  for (ERR_clear_error();; ERR_clear_error()) {
    const int result = SSL_do_handshake(ssl_.get());
    if (result == 1) break;
    co_await wait_to_retry(result);
  }
  // Only for who has proved it: they take memory.
  SSL_set0_rbio(ssl_.get(), buffered(SSL_get_rbio(ssl_.get()), buffer_bytes));
  SSL_set0_wbio(ssl_.get(), buffered(SSL_get_wbio(ssl_.get()), buffer_bytes));
}

asio::awaitable<void> Stream::wait_to_retry(int result) {
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      co_return co_await socket_.async_wait(asio::socket_base::wait_read, use_awaitable);
    case SSL_ERROR_WANT_WRITE:
      co_return co_await socket_.async_wait(asio::socket_base::wait_write, use_awaitable);
    case SSL_ERROR_SSL:
      if (failure_) break;
      throw system_error(
          error_code(static_cast<int>(ERR_get_error()), asio::error::get_ssl_category()));
    default:
      break;
  }
  throw system_error(failure_ ? failure_ : error_code(asio::error::eof));
}

asio::awaitable<void> Stream::flush() {
  BIO* bio = SSL_get_wbio(ssl_.get());
  while (BIO_flush(bio) != 1) {
    if (!BIO_should_retry(bio)) throw system_error(failure_);
    co_await socket_.async_wait(asio::socket_base::wait_write, use_awaitable);
  }
}

asio::awaitable<void> Stream::read(std::vector<asio::mutable_buffer> buffers) {
  if (is_clear_) co_return co_await read_clear(std::move(buffers));
  for (asio::mutable_buffer rest : buffers) {
    while (rest.size() > 0) {
      std::size_t moved = 0;
      ERR_clear_error();
      const int result = SSL_read_ex(ssl_.get(), rest.data(), rest.size(), &moved);
      if (result != 1) co_await wait_to_retry(result);
      rest += moved;
    }
  }
}

asio::awaitable<void> Stream::write(std::vector<asio::const_buffer> buffers) {
  if (is_clear_) co_return co_await write_clear(std::move(buffers));
  if (const std::size_t bytes = asio::buffer_size(buffers); bytes <= kRecord) {  // then in one
    record_.resize(bytes);
    asio::buffer_copy(asio::buffer(record_), buffers);
    buffers.assign(1, asio::buffer(record_));
  }
  for (asio::const_buffer rest : buffers) {
    while (rest.size() > 0) {
      std::size_t moved = 0;
      ERR_clear_error();
      const int result = SSL_write_ex(ssl_.get(), rest.data(), rest.size(), &moved);
      if (result != 1) co_await wait_to_retry(result);
      rest += moved;
    }
  }
  co_await flush();
}

asio::awaitable<void> Stream::read_clear(std::vector<asio::mutable_buffer> buffers) {
  const std::size_t had = asio::buffer_copy(buffers, came_ahead_);
  came_ahead_ += had;
  drop_front(buffers, had);
  while (!buffers.empty()) {
    const std::size_t wanted = asio::buffer_size(buffers);
    buffers.push_back(asio::buffer(ahead_));
    const std::size_t moved = co_await socket_.async_read_some(buffers, use_awaitable);
    buffers.pop_back();
    if (moved > wanted) came_ahead_ = asio::buffer(ahead_, moved - wanted);
    drop_front(buffers, std::min(moved, wanted));
  }
}

asio::awaitable<void> Stream::write_clear(std::vector<asio::const_buffer> buffers) {
  drop_front(buffers, 0);
  while (!buffers.empty())
    drop_front(buffers, co_await socket_.async_write_some(buffers, use_awaitable));
}

}  // namespace coxswain::net
