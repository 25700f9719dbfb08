#include "trainer/comm/nccl/nccl_communicator.h"

#include <bit>
#include <optional>
#include <type_traits>
#include <utility>

#include "trainer/backend/cuda/cuda_backend.h"
#include "trainer/backend/cuda/cuda_executable.h"
#include "trainer/comm/nccl/nccl_sums.h"
#include "trainer/comm/nccl/nccl_watch.h"
#include "trainer/tensor/device_span.h"

namespace coxswain::comm {

namespace {

using backend::cuda::check;

// Words of a step.
enum : std::uint64_t { kSum = 401, kJoin };
constexpr Ticket kOnDevice = -1;

std::shared_ptr<NcclHandle> connect(Communicator& host, const NcclOptions& options) {
  auto handle = std::make_shared<NcclHandle>();
  const NcclWatch watch(handle, options);
  ncclUniqueId id = {};
  if (host.rank() == 0) check_nccl(ncclGetUniqueId(&id), "taking an id");
  host.broadcast(std::as_writable_bytes(std::span(&id, 1)), 0);
  handle->call("connecting the GPUs", [&](ncclComm_t& comm) {
    check_nccl(ncclCommInitRank(&comm, host.size(), id, host.rank()), "connecting the GPUs");
  });
  return handle;
}

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(std::unique_ptr<Communicator> host, backend::cuda::Shared& shared,
                   const NcclOptions& options)
      : fixed_order_(options.fixed_order),
        host_(std::move(host)),
        shared_(shared),
        handle_(connect(*host_, options)),
        sums_(*handle_, {stream_.get(), shared.queue.multiprocessors}, host_->rank(),
              host_->size()),
        watch_(std::in_place, handle_, options) {}

  ~NcclCommunicator() override {
    watch_.reset();
    shared_.steps.forget();
    handle_->abort();
  }

  std::shared_ptr<NcclHandle> handle() const { return handle_; }
  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  bool reaches(tensor::Place) const override { return true; }
  bool fixed_order() const override { return fixed_order_; }

  Ticket all_reduce_sum(const ReductionPlan& plan, Reduction reduction) override {
    check_reduction(plan, reduction, rank(), size());
    if (reduction.parts[0].place() == tensor::Place::kHost)
      return guarded([&] { return host_->all_reduce_sum(plan, std::move(reduction)); });
    if (reduction.codec != nullptr)
      throw Error(ExitCode::kInternal, "[nccl] gradients on a GPU are summed without a codec");
    if (handle_->is_aborted()) host_->barrier();  // says why
    if (asks_for(reduction)) enqueue(plan, reduction);
    is_joined_ = false;
    return kOnDevice;
  }

  void wait(Ticket ticket) override {
    if (ticket == kOnDevice) return join();
    guarded([&] { host_->wait(ticket); });
  }

  void all_gather(const tensor::Slice& own, const tensor::Slice& all) override {
    if (own.place() == tensor::Place::kHost) return guarded([&] { host_->all_gather(own, all); });
    await_backend();
    sums_.gather(own, all);
    let_backend_wait();
  }

  void broadcast(std::span<std::byte> bytes, int root) override {
    guarded([&] { host_->broadcast(bytes, root); });
  }
  void barrier() override {
    guarded([&] { host_->barrier(); });
  }

  // NCCL's communicator can't go before the graphs that hold its calls, nor these while they run.
  void finish() override {
    guarded([&] {
      if (called_) host_->wait(*called_);
      host_->barrier();
    });
    watch_.reset();
    shared_.steps.forget();
    check(cudaDeviceSynchronize(), "waiting for the last sums");
    handle_->destroy();
    host_->finish();
  }

 private:
  // Once a peer is missing the device waits for it in vain, and this rank for the device.
  template <class Call>
  std::invoke_result_t<const Call&> guarded(const Call& call) {
    try {
      return call();
    } catch (const Error&) {
      handle_->abort();
      throw;
    }
  }

  bool asks_for(const Reduction& reduction) {
    bool asks = true;
    for (const tensor::Slice& part : reduction.parts) {
      const auto span = tensor::device_span(part);
      asks = shared_.steps.asks({kSum, std::bit_cast<std::uint64_t>(span.data()), span.size()});
    }
    return asks;
  }

  // What is enqueued next comes behind all that the backend has been asked so far.
  void await_backend() {
    check(cudaEventRecord(ready_.get(), shared_.stream.get()), "marking gradients");
    check(cudaStreamWaitEvent(stream_.get(), ready_.get(), 0), "waiting for gradients");
  }

  // What the backend is asked from now on comes behind all that was enqueued so far.
  void let_backend_wait() {
    check(cudaEventRecord(summed_.get(), stream_.get()), "marking sums");
    check(cudaStreamWaitEvent(shared_.stream.get(), summed_.get(), 0), "waiting for sums");
  }

  // Beside what the backend is asked from now on.
  void enqueue(const ReductionPlan& plan, const Reduction& reduction) {
    await_backend();
    if (fixed_order_) {
      sums_.sum_in_order(plan, reduction.parts);
    } else {
      sums_.sum_in_any_order(reduction.parts);
    }
  }

  void join() {
    if (std::exchange(is_joined_, true)) return;
    if (shared_.steps.asks({kJoin})) let_backend_wait();
    call_the_roll();
  }

  void call_the_roll() {
    guarded([&] {
      if (called_) host_->wait(*called_);
      present_ = 1;
      called_ = host_->all_reduce_sum(in_rank_order(size()), {{std::span(&present_, 1)}, 0});
    });
  }

  bool fixed_order_;
  std::unique_ptr<Communicator> host_;
  backend::cuda::Shared& shared_;
  std::shared_ptr<NcclHandle> handle_;
  backend::cuda::Stream stream_ = backend::cuda::make_stream();
  backend::cuda::Event ready_ = backend::cuda::make_event();
  backend::cuda::Event summed_ = backend::cuda::make_event();
  NcclSums sums_;
  bool is_joined_ = true;
  std::optional<Ticket> called_;
  float present_ = 1;  // of each rank, and then the number of ranks
  std::optional<NcclWatch> watch_;
};

}  // namespace

NcclRanks make_nccl_communicator(std::unique_ptr<Communicator> host, backend::Backend& backend,
                                 NcclOptions options) {
  auto communicator = std::make_unique<NcclCommunicator>(
      std::move(host), backend::cuda::shared_of(backend), options);
  auto abort = [handle = communicator->handle()] { return handle->abort(); };
  return {std::move(communicator), std::move(abort)};
}

}  // namespace coxswain::comm
