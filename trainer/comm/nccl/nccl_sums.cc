#include "trainer/comm/nccl/nccl_sums.h"

#include <algorithm>

#include "trainer/tensor/device_span.h"

namespace coxswain::comm {

namespace {

using backend::cuda::Additions;
using tensor::device_span;

constexpr std::int64_t kAlign = 64;  // floats

// How far apart the shares of the ranks are.
std::int64_t stride_of(std::int64_t count, int size) {
  const std::int64_t even = (count + size - 1) / size;
  return (even + kAlign - 1) / kAlign * kAlign;
}

// Some ranks' shares are empty when there is little to sum.
template <class Call>
void unless_empty(std::int64_t length, const Call& call) {
  if (length > 0) check_nccl(call(static_cast<std::size_t>(length)), "exchanging gradients");
}

}  // namespace

NcclSums::Share NcclSums::share_of(int rank, std::int64_t count) const {
  const std::int64_t stride = stride_of(count, size_);
  const std::int64_t first = std::min(count, rank * stride);
  return {first, std::min(count - first, stride)};
}

float* NcclSums::scratch(std::int64_t floats) {
  const auto bytes = static_cast<std::size_t>(floats) * sizeof(float);
  if (scratch_.empty() || scratch_.back().size() < bytes)
    scratch_.emplace_back(bytes, "the gradients of other ranks");
  return reinterpret_cast<float*>(scratch_.back().data());
}

void NcclSums::exchange_parts(const ReductionPlan& plan, const std::vector<tensor::Slice>& parts,
                              float* shares, std::int64_t stride) {
  const std::int64_t count = parts[0].size();
  handle_.call("an exchange of gradients", [&](ncclComm_t comm) {
    check_nccl(ncclGroupStart(), "exchanging gradients");
    for (int peer = 0; peer < size_; ++peer) {
      const Share share = share_of(peer, count);
      for (const tensor::Slice& part : parts) {
        unless_empty(share.length, [&](std::size_t length) {
          return ncclSend(device_span(part).data() + share.first, length, ncclFloat32, peer, comm,
                          queue_.stream);
        });
      }
      for (int part = plan.first_part(peer); part < plan.first_part(peer + 1); ++part) {
        unless_empty(share_of(rank_, count).length, [&](std::size_t length) {
          return ncclRecv(shares + part * stride, length, ncclFloat32, peer, comm, queue_.stream);
        });
      }
    }
    check_nccl(ncclGroupEnd(), "exchanging gradients");
  });
}

void NcclSums::give_to_all(const float* own, const tensor::Slice& all,
                           const std::function<Share(int rank)>& share) {
  const auto to = device_span(all);
  handle_.call("an exchange of sums", [&](ncclComm_t comm) {
    check_nccl(ncclGroupStart(), "exchanging sums");
    for (int peer = 0; peer < size_; ++peer) {
      unless_empty(share(rank_).length, [&](std::size_t length) {
        return ncclSend(own, length, ncclFloat32, peer, comm, queue_.stream);
      });
      unless_empty(share(peer).length, [&](std::size_t length) {
        return ncclRecv(to.data() + share(peer).first, length, ncclFloat32, peer, comm,
                        queue_.stream);
      });
    }
    check_nccl(ncclGroupEnd(), "exchanging sums");
  });
}

void NcclSums::sum_in_order(const ReductionPlan& plan, const std::vector<tensor::Slice>& parts) {
  const std::int64_t count = parts[0].size();
  if (count == 0) return;
  const std::int64_t stride = stride_of(count, size_);
  float* shares = scratch(plan.total_parts() * stride);
  exchange_parts(plan, parts, shares, stride);
  const std::int64_t own = share_of(rank_, count).length;
  for (std::size_t next = 0; own > 0 && next < plan.adds.size();) {
    Additions additions;
    for (; next < plan.adds.size() && additions.count < Additions::kMost; ++next) {
      additions.pairs[static_cast<std::size_t>(additions.count++)] = {plan.adds[next].into,
                                                                      plan.adds[next].from};
    }
    backend::cuda::add_in_order(queue_, additions, shares, stride, own);
  }
  give_to_all(shares, parts[0], [&](int rank) { return share_of(rank, count); });
}

void NcclSums::sum_in_any_order(const std::vector<tensor::Slice>& parts) {
  const auto sum = device_span(parts[0]);
  if (sum.empty()) return;
  for (std::size_t i = 1; i < parts.size(); ++i)
    backend::cuda::add_into(queue_, sum.data(), device_span(parts[i]).data(), std::ssize(sum));
  handle_.call("a sum of gradients", [&](ncclComm_t comm) {
    check_nccl(ncclAllReduce(sum.data(), sum.data(), sum.size(), ncclFloat32, ncclSum, comm,
                             queue_.stream),
               "summing gradients");
  });
}

void NcclSums::gather(const tensor::Slice& own, const tensor::Slice& all) {
  give_to_all(device_span(own).data(), all,
              [&](int rank) { return Share{rank * own.size(), own.size()}; });
}

}  // namespace coxswain::comm
