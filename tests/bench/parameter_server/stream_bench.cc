// What the network, and the cipher, cost before any parameter server: the same bytes there and back
// through one TCP connection on this machine, in clear or sealed as TLS 1.3 would seal them.
//
//   stream_bench plain|sealed [MB [repeats]]      prints {"milliseconds": [...]}
#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netinet/tcp.h>
#include <openssl/evp.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace {

using Bytes = std::span<unsigned char>;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kRecord = std::size_t{1} << 14;  // the largest of TLS (RFC 8446, 5.1)
constexpr std::size_t kTag = 16;
constexpr std::size_t kRecords = 16;  // in one call of the kernel

void check(bool ok, const char* what) {
  if (!ok) throw std::runtime_error(what);
}

void write_all(int socket, Bytes bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(socket, bytes.data(), bytes.size());
    check(done > 0, "write");
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
}

void read_all(int socket, Bytes bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::read(socket, bytes.data(), bytes.size());
    check(done > 0, "read");
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
}

// One direction of a connection, under a key and a counting nonce of its own.
class Cipher {
 public:
  explicit Cipher(bool seals) : seals_(seals), context_(EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free) {
    const std::array<unsigned char, 16> key{};
    check(EVP_CipherInit_ex(context_.get(), EVP_aes_128_gcm(), nullptr, key.data(), nullptr,
                            seals ? 1 : 0) == 1,
          "cipher");
  }

  // `record`: the data, then room for the tag, or the tag.
  void apply(std::span<const unsigned char> from, unsigned char* to, unsigned char* tag) {
    ++nonce_[0];
    nonce_[1] = static_cast<unsigned char>(nonce_[1] + (nonce_[0] == 0 ? 1 : 0));
    int length = 0;
    EVP_CIPHER_CTX* context = context_.get();
    check(
        EVP_CipherInit_ex(context, nullptr, nullptr, nullptr, nonce_.data(), -1) == 1 &&
            EVP_CipherUpdate(context, to, &length, from.data(), static_cast<int>(from.size())) == 1,
        "record");
    if (!seals_) check(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, kTag, tag) == 1, "tag");
    check(EVP_CipherFinal_ex(context, to + length, &length) == 1, "a record was changed");
    if (seals_) check(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, kTag, tag) == 1, "tag");
  }

 private:
  bool seals_;
  std::array<unsigned char, 12> nonce_{};
  std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)> context_;
};

// One end of the connection.
class Stream {
 public:
  Stream(int socket, bool sealed) : socket_(socket), sealed_(sealed) {
    const int on = 1;
    ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }

  void send(Bytes bytes) {
    if (!sealed_) return write_all(socket_, bytes);
    in_calls(bytes, [&](Bytes part) {
      unsigned char* to = wire_.data();
      in_records(part, [&](Bytes record) {
        sealer_.apply(record, to, to + record.size());
        to += record.size() + kTag;
      });
      write_all(socket_, {wire_.data(), to});
    });
  }

  void receive(Bytes bytes) {
    if (!sealed_) return read_all(socket_, bytes);
    in_calls(bytes, [&](Bytes part) {
      const std::size_t records = (part.size() + kRecord - 1) / kRecord;
      read_all(socket_, {wire_.data(), part.size() + records * kTag});
      unsigned char* from = wire_.data();
      in_records(part, [&](Bytes record) {
        opener_.apply({from, record.size()}, record.data(), from + record.size());
        from += record.size() + kTag;
      });
    });
  }

 private:
  static void in_parts(Bytes bytes, std::size_t most, const auto& each) {
    for (; !bytes.empty(); bytes = bytes.subspan(std::min(most, bytes.size())))
      each(bytes.first(std::min(most, bytes.size())));
  }
  static void in_calls(Bytes bytes, const auto& each) { in_parts(bytes, kRecords * kRecord, each); }
  static void in_records(Bytes bytes, const auto& each) { in_parts(bytes, kRecord, each); }

  int socket_;
  bool sealed_;
  Cipher sealer_{true};
  Cipher opener_{false};
  std::vector<unsigned char> wire_ = std::vector<unsigned char>(kRecords * (kRecord + kTag));
};

struct Listener {
  int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  Listener() {
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* name = reinterpret_cast<sockaddr*>(&address);
    socklen_t length = sizeof address;
    check(::bind(socket, name, length) == 0 && ::listen(socket, 1) == 0 &&
              ::getsockname(socket, name, &length) == 0,
          "listen");
  }
};

void answer(const Listener& listener, bool sealed, Bytes bytes, int repeats) {
  Stream stream(::accept(listener.socket, nullptr, nullptr), sealed);
  for (int i = 0; i < repeats; ++i) {
    stream.receive(bytes);
    stream.send(bytes);
  }
}

std::vector<double> ask(const Listener& listener, bool sealed, Bytes bytes, int repeats) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  check(::connect(socket, reinterpret_cast<const sockaddr*>(&listener.address),
                  sizeof listener.address) == 0,
        "connect");
  Stream stream(socket, sealed);
  std::vector<double> milliseconds;
  for (int i = 0; i < repeats; ++i) {
    const auto begin = Clock::now();
    stream.send(bytes);
    stream.receive(bytes);
    milliseconds.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
  }
  return milliseconds;
}

}  // namespace

int main(int argc, char** argv) {
  constexpr int kWarmUp = 2;
  const bool sealed = argc > 1 && std::string_view(argv[1]) == "sealed";
  const double megabytes = argc > 2 ? std::atof(argv[2]) : 45;
  const int repeats = kWarmUp + (argc > 3 ? std::atoi(argv[3]) : 20);
  std::vector<unsigned char> bytes(static_cast<std::size_t>(megabytes * 1e6), 1);
  const Listener listener;
  const pid_t server = ::fork();
  if (server == 0) {
    answer(listener, sealed, bytes, repeats);
    return 0;
  }
  const auto milliseconds = ask(listener, sealed, bytes, repeats);
  ::waitpid(server, nullptr, 0);
  fmt::print("{{\"milliseconds\": [{:.2f}]}}\n",
             fmt::join(std::span(milliseconds).subspan(kWarmUp), ", "));
}
