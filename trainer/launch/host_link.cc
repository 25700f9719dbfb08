#include "trainer/launch/host_link.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

namespace coxswain::launch {

namespace {

constexpr std::size_t kPiece = 64 << 10;
constexpr std::size_t kFull = 256 << 10;

void never_wait(int descriptor) {
  fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK);
}

bool comes_later() { return errno == EAGAIN || errno == EINTR; }

}  // namespace

HostLink::HostLink(contract::FileDescriptor in, contract::FileDescriptor out, bool greeted)
    : in_(std::move(in)), out_(std::move(out)), reader_(greeted) {
  never_wait(in_.get());
  never_wait(out_.get());
}

std::vector<Frame> HostLink::receive() {
  std::array<char, kPiece> piece;
  if (!is_closed()) {
    const ssize_t got = read(in_.get(), piece.data(), piece.size());
    if (got > 0) reader_.add({piece.data(), static_cast<std::size_t>(got)});
    if (got == 0 || (got < 0 && !comes_later())) in_.close();
  }
  std::vector<Frame> frames;
  while (auto frame = reader_.next()) frames.push_back(std::move(*frame));
  return frames;
}

void HostLink::send_bytes(std::string_view bytes) {
  unsent_ += bytes;
  flush();
}

void HostLink::flush() {
  while (!unsent_.empty() && out_.get() >= 0) {
    const ssize_t put = write(out_.get(), unsent_.data(), unsent_.size());
    if (put < 0 && comes_later()) return;
    if (put < 0) out_.close();
    if (put > 0) unsent_.erase(0, static_cast<std::size_t>(put));
  }
  if (out_.get() < 0) unsent_.clear();  // nobody is there
}

bool HostLink::is_full() const { return unsent_.size() > kFull; }

}  // namespace coxswain::launch
