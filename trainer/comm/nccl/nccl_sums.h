#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "trainer/backend/cuda/device.h"
#include "trainer/comm/communicator.h"
#include "trainer/comm/nccl/nccl_handle.h"

namespace coxswain::comm {

// Resource. Sums of what lies on this rank's device, enqueued on one stream; allocates nothing for
// sums as long as those before.
class NcclSums {
 public:
  NcclSums(NcclHandle& handle, const backend::cuda::Queue& queue, int rank, int size)
      : handle_(handle), queue_(queue), rank_(rank), size_(size) {}

  // By the plan: each rank gets all parts of its share of the elements, adds them, and sends the
  // sum to all.
  void sum_in_order(const ReductionPlan& plan, const std::vector<tensor::Slice>& parts);
  void sum_in_any_order(const std::vector<tensor::Slice>& parts);
  // Every rank's `own` into `all`, in rank order.
  void gather(const tensor::Slice& own, const tensor::Slice& all);

 private:
  struct Share {
    std::int64_t first = 0;
    std::int64_t length = 0;
  };
  Share share_of(int rank, std::int64_t count) const;
  float* scratch(std::int64_t floats);
  void exchange_parts(const ReductionPlan& plan, const std::vector<tensor::Slice>& parts,
                      float* shares, std::int64_t stride);
  // Every rank's share of `all`: this one's is `own`.
  void give_to_all(const float* own, const tensor::Slice& all,
                   const std::function<Share(int rank)>& share);

  NcclHandle& handle_;
  backend::cuda::Queue queue_;
  int rank_;
  int size_;
  std::vector<backend::cuda::DeviceMemory> scratch_;  // all kept: recorded steps name them
};

}  // namespace coxswain::comm
