#include "trainer/comm/nccl/nccl_communicator.h"

namespace coxswain::comm {

// Not reached: there is no backend to sum for.
NcclRanks make_nccl_communicator(std::unique_ptr<Communicator> /*host*/,
                                 backend::Backend& /*backend*/, NcclOptions /*options*/) {
  throw Error(ExitCode::kBadInput, "[comm] this program was built without CUDA");
}

}  // namespace coxswain::comm
