#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/cuda_host/nccl_ranks.h"
#include "tests/support/cuda_host/work.h"

namespace {

using cuda_host::Progress;

enum class Kind { kSend, kReceive, kSum };

struct Call {
  Kind kind = Kind::kSend;
  const float* from = nullptr;
  float* to = nullptr;
  std::size_t count = 0;
  int peer = 0;
};

// A call that its rank has come to, and what it still waits for.
struct Posted {
  Call call;
  std::shared_ptr<std::size_t> open;  // calls of its group that are not done
};

// What the ranks of one communicator have come to.
struct World {
  int size = 0;
  int come = 0;  // counts also who has gone again before another looked
  std::map<std::pair<int, int>, std::deque<Posted>> sends;  // from, to
  std::map<std::pair<int, int>, std::deque<Posted>> receives;
  std::vector<std::deque<Posted>> sums;  // of each rank

  void match(int from, int to) {
    auto& sent = sends[{from, to}];
    auto& wanted = receives[{from, to}];
    while (!sent.empty() && !wanted.empty()) {
      const Posted& send = sent.front();
      const Posted& receive = wanted.front();
      std::memcpy(receive.call.to, send.call.from,
                  std::min(send.call.count, receive.call.count) * sizeof(float));
      --*send.open;
      --*receive.open;
      sent.pop_front();
      wanted.pop_front();
    }
  }

  void forget(int rank) {
    const auto forget_of = [rank](auto& all) {
      for (auto& [ranks, posted] : all)
        if (ranks.first == rank || ranks.second == rank) posted.clear();
    };
    forget_of(sends);
    forget_of(receives);
    for (auto& posted : sums) posted.clear();
  }

  // In an order that nobody promises, the same for all ranks.
  void match_sums() {
    const auto is_missing = [](const auto& posted) { return posted.empty(); };
    if (std::ranges::any_of(sums, is_missing)) return;
    const std::size_t first = cuda_host::random().below(sums.size());
    const std::size_t count = sums[0].front().call.count;
    std::vector<float> sum(count);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const float* part = sums[(first + i) % sums.size()].front().call.from;
      for (std::size_t at = 0; at < count; ++at) sum[at] += part[at];
    }
    for (auto& posted : sums) {
      std::ranges::copy(sum, posted.front().call.to);
      --*posted.front().open;
      posted.pop_front();
    }
  }
};

// Guarded by cuda_host::mutex().
std::map<std::string, std::weak_ptr<World>>& worlds() {
  static auto& all = *std::make_unique<std::map<std::string, std::weak_ptr<World>>>().release();
  return all;
}
int broken_rank = -1;
bool held_back = false;
int living = 0;

}  // namespace

struct ncclComm {
  int rank = 0;
  std::shared_ptr<World> world;
  std::shared_ptr<std::atomic<bool>> aborted = std::make_shared<std::atomic<bool>>(false);
  std::shared_ptr<int> use =
      std::make_shared<int>(0);  // shared with its calls and the graphs that hold them
};

namespace {

// A group on its way: it comes to its calls once, then waits for the others.
class Group {
 public:
  Group(const ncclComm& comm, std::vector<Call> calls)
      : rank_(comm.rank),
        world_(comm.world),
        aborted_(comm.aborted),
        use_(comm.use),
        calls_(std::move(calls)),
        open_(std::make_shared<std::size_t>(calls_.size())) {}

  Progress operator()() {
    if (*aborted_) return Progress::kDone;
    const bool comes = !has_come_;
    if (comes) post();
    has_come_ = true;
    if (*open_ == 0) return Progress::kDone;
    return comes ? Progress::kSome : Progress::kNone;
  }

 private:
  void post() {
    for (const Call& call : calls_) {
      if (call.kind == Kind::kSend) {
        world_->sends[{rank_, call.peer}].push_back({call, open_});
        world_->match(rank_, call.peer);
      } else if (call.kind == Kind::kReceive) {
        world_->receives[{call.peer, rank_}].push_back({call, open_});
        world_->match(call.peer, rank_);
      } else {
        world_->sums[static_cast<std::size_t>(rank_)].push_back({call, open_});
        world_->match_sums();
      }
    }
  }

  int rank_;
  std::shared_ptr<World> world_;
  std::shared_ptr<std::atomic<bool>> aborted_;
  std::shared_ptr<int> use_;
  std::vector<Call> calls_;
  std::shared_ptr<std::size_t> open_;
  bool has_come_ = false;
};

// The calls of this thread since ncclGroupStart.
struct Collected {
  int depth = 0;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<Call> calls;
};
thread_local Collected collected;

ncclResult_t enqueue_collected() {
  if (collected.calls.empty()) return ncclSuccess;
  const auto new_group = [comm = *collected.comm, calls = std::exchange(collected.calls, {})] {
    return cuda_host::Work(Group(comm, calls));
  };
  cuda_host::enqueue_new(collected.stream, new_group);
  return ncclSuccess;
}

ncclResult_t add(Call call, ncclComm_t comm, cudaStream_t stream) {
  if (comm == nullptr || stream == nullptr) return ncclInvalidArgument;
  if (call.peer < 0 || call.peer >= comm->world->size) return ncclInvalidArgument;
  collected.comm = comm;
  collected.stream = stream;
  collected.calls.push_back(call);
  return collected.depth > 0 ? ncclSuccess : enqueue_collected();
}

}  // namespace

namespace cuda_host {

void break_nccl(int rank) {
  const std::lock_guard lock(mutex());
  broken_rank = rank;
}

void hold_nccl_back(bool held) {
  const std::lock_guard lock(mutex());
  held_back = held;
  changed().notify_all();
}

int living_communicators() {
  const std::lock_guard lock(mutex());
  return living;
}

}  // namespace cuda_host

ncclResult_t ncclGetVersion(int* version) {
  *version = 23007;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<int> last = 0;
  std::memset(id->internal, 0, sizeof(id->internal));
  const std::string text = std::to_string(++last);
  std::ranges::copy(text, id->internal);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank) {
  if (rank < 0 || rank >= size) return ncclInvalidArgument;
  std::unique_lock lock(cuda_host::mutex());
  cuda_host::changed().wait(lock, [] { return !held_back; });
  std::weak_ptr<World>& known = worlds()[id.internal];
  std::shared_ptr<World> world = known.lock();
  if (world == nullptr) {
    world = std::make_shared<World>();
    world->size = size;
    world->sums.resize(static_cast<std::size_t>(size));
    known = world;
  }
  auto made = std::make_unique<ncclComm>();
  made->rank = rank;
  made->world = std::move(world);
  // All come before one goes on.
  ++made->world->come;
  cuda_host::changed().notify_all();
  cuda_host::changed().wait(lock, [&] { return made->world->come >= size; });
  ++living;
  *comm = made.release();
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  const std::lock_guard lock(cuda_host::mutex());
  if (comm->use.use_count() > 1) return ncclInvalidUsage;  // the real one would wait for ever
  const std::unique_ptr<ncclComm> owner(comm);
  --living;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const std::lock_guard lock(cuda_host::mutex());
  const std::unique_ptr<ncclComm> owner(comm);
  --living;
  *comm->aborted = true;
  comm->world->forget(comm->rank);
  cuda_host::changed().notify_all();
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  const std::lock_guard lock(cuda_host::mutex());
  *error = comm->rank == broken_rank ? ncclRemoteError : ncclSuccess;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInvalidArgument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    default:
      return "unhandled error";
  }
}

ncclResult_t ncclGroupStart() {
  ++collected.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (collected.depth == 0) return ncclInvalidUsage;
  return --collected.depth == 0 ? enqueue_collected() : ncclSuccess;
}

ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return add({.kind = Kind::kSend,
              .from = static_cast<const float*>(from),
              .to = nullptr,
              .count = count,
              .peer = peer},
             comm, stream);
}

ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add({.kind = Kind::kReceive,
              .from = nullptr,
              .to = static_cast<float*>(to),
              .count = count,
              .peer = peer},
             comm, stream);
}

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t,
                           ncclRedOp_t, ncclComm_t comm, cudaStream_t stream) {
  return add({.kind = Kind::kSum,
              .from = static_cast<const float*>(from),
              .to = static_cast<float*>(to),
              .count = count,
              .peer = 0},
             comm, stream);
}
