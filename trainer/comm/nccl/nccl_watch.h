#pragma once

#include <memory>
#include <thread>

#include "trainer/comm/nccl/nccl_communicator.h"
#include "trainer/comm/nccl/nccl_handle.h"

namespace coxswain::comm {

// Resource. A thread that looks whether NCCL tells of an error, which comes beside its calls, and
// whether one of them hangs; then, once, on_broken.
class NcclWatch {
 public:
  NcclWatch(std::shared_ptr<NcclHandle> handle, NcclOptions options);

 private:
  std::jthread thread_;
};

}  // namespace coxswain::comm
