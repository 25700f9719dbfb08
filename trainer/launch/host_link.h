#pragma once

#include <vector>

#include "trainer/contract/worker/child_process.h"
#include "trainer/launch/host_frames.h"

namespace coxswain::launch {

// Resource. Frames over two pipes, without waiting for either.
class HostLink {
 public:
  // Makes both non-blocking. `greeted`: see FrameReader.
  HostLink(contract::FileDescriptor in, contract::FileDescriptor out, bool greeted);

  int descriptor() const { return in_.get(); }  // readable when there are frames; -1: closed
  bool is_closed() const { return in_.get() < 0; }

  std::vector<Frame> receive();  // those that have come whole. Throws Error(70) for none of ours
  void send(const Frame& frame) { send_bytes(to_bytes(frame)); }
  void send_bytes(std::string_view bytes);
  void flush();  // as much as the other end takes; what it does not, is asked for again
  bool waits() const { return !unsent_.empty(); }
  // So much waits that nothing should be added but what can't.
  bool is_full() const;

 private:
  contract::FileDescriptor in_;
  contract::FileDescriptor out_;
  FrameReader reader_;
  std::string unsent_;
};

}  // namespace coxswain::launch
