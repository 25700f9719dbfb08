#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <utility>  // before Asio 1.74, which forgets it
#include <vector>

#include <boost/asio.hpp>
#include <openssl/ssl.h>

namespace coxswain::net {

// Resource. One TCP connection between two that hold a key. They prove it by TLS 1.3; what follows
// is sealed by it, unless both go on in clear. For one reader and one writer, on one thread. What
// fails throws boost::system::system_error, of Asio's ssl category where the other end does not
// speak TLS as this one does.
class Stream {
 public:
  explicit Stream(boost::asio::io_context& io) : socket_(io), ssl_(nullptr, SSL_free) {}

  boost::asio::ip::tcp::socket& socket() { return socket_; }  // to connect and to close

  // Of a connected socket; `context` outlives the stream. `buffer_bytes`: of sealed bytes that one
  // call of the kernel moves, each way.
  boost::asio::awaitable<void> prove_key(SSL_CTX* context, bool is_caller, long buffer_bytes);
  // From the next byte on, of both; the other has sent none of those yet.
  void go_on_in_clear() { is_clear_ = true; }

  // All of it.
  boost::asio::awaitable<void> read(std::vector<boost::asio::mutable_buffer> buffers);
  boost::asio::awaitable<void> write(std::vector<boost::asio::const_buffer> buffers);

 private:
  boost::asio::awaitable<void> read_clear(std::vector<boost::asio::mutable_buffer> buffers);
  boost::asio::awaitable<void> write_clear(std::vector<boost::asio::const_buffer> buffers);
  // Until what OpenSSL said `result` of can be tried again. Throws if never.
  boost::asio::awaitable<void> wait_to_retry(int result);
  boost::asio::awaitable<void> flush();

  // OpenSSL's way to the socket.
  BIO* make_bio();
  static Stream& of(BIO* bio) { return *static_cast<Stream*>(BIO_get_data(bio)); }
  static int read_socket(BIO* bio, char* to, int size);
  static int write_socket(BIO* bio, const char* from, int size);

  boost::asio::ip::tcp::socket socket_;
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_;
  boost::system::error_code failure_;  // of the socket, under OpenSSL
  std::vector<std::byte> record_;      // of what is short, and sealed together
  bool is_clear_ = false;
  // In clear: what came with the last read and was not asked for yet.
  std::array<std::byte, 4096> ahead_{};
  boost::asio::mutable_buffer came_ahead_;
};

}  // namespace coxswain::net
