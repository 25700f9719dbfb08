#include "tests/support/cuda_host/device.h"

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "tests/support/cuda_host/cuda_runtime.h"
#include "tests/support/cuda_host/fibers.h"
#include "tests/support/cuda_host/objects.h"

extern char __start_cuda_shared[] __attribute__((weak));
extern char __stop_cuda_shared[] __attribute__((weak));

namespace cuda_host {

Here here;

namespace {

// All devices of the process.
struct Device {
  std::mutex mutex;  // of all that follows, and of what runs
  std::condition_variable changed;
  Random random{1};
  unsigned char fill = 0xA5;
  std::vector<CUstream_st*> streams;  // as they were made
  std::map<void*, std::size_t> blocks;
  std::map<void*, std::size_t> given_back;  // while streams may still name them
  std::size_t allocated = 0;
  std::int64_t clock = 0;  // microseconds
  std::size_t memory = std::size_t{4} << 30;
  int devices = 1;
  std::string name = "a host";
  std::set<Place> places;
  std::optional<Place> left_out;
};

Device& device() {
  static Device& one = *std::make_unique<Device>().release();
  return one;
}

// Notes the place; false where it is left out.
bool stands(const char* kind, const Site& site) {
  const std::string path = site.file_name();
  const Place place{kind, path.substr(path.rfind('/') + 1), site.line()};
  device().places.insert(place);
  return place != device().left_out;
}

void fill_memory(void* to, std::size_t bytes) {
  // Huge numbers, not NaN alone: what is not finite may be ignored where a number is not.
  std::memset(to, device().fill, bytes);
}

// One thing of what the mark needs, or of what the stream holds next; false when that waits for
// what nobody has enqueued yet.
bool advance(CUstream_st& stream);

bool advance_to(const Mark& mark) {
  if (mark.stream == nullptr || mark.stream->items.empty()) {
    std::fputs("an event is waited for that no stream comes to\n", stderr);
    std::abort();
  }
  return advance(*mark.stream);
}

bool advance(CUstream_st& stream) {
  Item& item = stream.items.front();
  if (item.waits_for && !item.waits_for->done) return advance_to(*item.waits_for);
  const Progress progress = item.work ? item.work() : Progress::kDone;
  for (const auto& [address, bytes] : device().given_back) fill_memory(address, bytes);
  if (progress != Progress::kDone) return progress == Progress::kSome;
  if (item.records) {
    item.records->done = true;
    item.records->time = device().clock;
  }
  stream.items.pop_front();
  device().changed.notify_all();
  return true;
}

CUstream_st* random_stream() {
  return device().streams[device().random.below(device().streams.size())];
}

// Things that nobody has asked for yet.
void do_more() {
  if (device().random.below(4) != 0) return;
  CUstream_st& stream = *random_stream();
  if (!stream.items.empty()) advance(stream);
}

// What other devices have to do: this one waits for them.
bool advance_others() {
  std::vector<CUstream_st*> streams;
  for (CUstream_st* stream : device().streams)
    if (!stream->items.empty() && stream->device != current_device()) streams.push_back(stream);
  while (!streams.empty()) {
    std::swap(streams.back(), streams[device().random.below(streams.size())]);
    if (advance(*streams.back())) return true;
    streams.pop_back();
  }
  return false;
}

// Until `is_done`: `advance_one` does one thing for it, or says that it can't. A minute without any
// is a test that hangs.
template <class IsDone, class AdvanceOne>
void run_until(std::unique_lock<std::mutex>& lock, const IsDone& is_done,
               const AdvanceOne& advance_one) {
  while (!is_done()) {
    if (advance_one()) {
      do_more();
    } else if (!advance_others() && device().changed.wait_for(lock, std::chrono::minutes(1)) ==
                                        std::cv_status::timeout) {
      std::fputs("a device waits for another, and that for nothing\n", stderr);
      std::abort();
    }
  }
}

void run_all_of(std::unique_lock<std::mutex>& lock, CUstream_st& stream) {
  run_until(lock, [&] { return stream.items.empty(); }, [&] { return advance(stream); });
}

void enqueue_item(CUstream_st* stream, Item item) {
  stream->items.push_back(std::move(item));
  device().changed.notify_all();
}

// A graph that was launched.
class GraphRun {
 public:
  explicit GraphRun(std::shared_ptr<const CUgraph_st> graph) : graph_(std::move(graph)) {
    for (std::size_t i = 0; i < graph_->nodes.size(); ++i) {
      missing_.push_back(graph_->nodes[i].after.size());
      if (missing_.back() == 0) ready_.push_back({i, graph_->nodes[i].work()});
    }
  }

  // Does what it can: all, unless a node waits for another device.
  Progress operator()() {
    Progress progress = Progress::kNone;
    for (std::size_t tried = 0; tried < ready_.size();) {
      const std::size_t pick = tried + device().random.below(ready_.size() - tried);
      const Progress made = ready_[pick].work();
      if (made != Progress::kDone) {
        if (made == Progress::kSome) progress = made;
        std::swap(ready_[tried++], ready_[pick]);
        continue;
      }
      progress = Progress::kSome;
      const std::size_t done = ready_[pick].node;
      ready_.erase(ready_.begin() + static_cast<std::ptrdiff_t>(pick));
      free_followers(done);
      tried = 0;
    }
    return ready_.empty() ? Progress::kDone : progress;
  }

 private:
  struct Ready {
    std::size_t node;
    Work work;
  };

  void free_followers(std::size_t done) {
    for (std::size_t i = 0; i < graph_->nodes.size(); ++i) {
      const auto freed = static_cast<std::size_t>(
          std::ranges::count(graph_->nodes[i].after, static_cast<int>(done)));
      if (freed != 0 && (missing_[i] -= freed) == 0) ready_.push_back({i, graph_->nodes[i].work()});
    }
  }

  std::shared_ptr<const CUgraph_st> graph_;
  std::vector<std::size_t> missing_;  // of each node
  std::vector<Ready> ready_;
};

cudaError_t allocate(void** address, std::size_t bytes) {
  const std::lock_guard lock(device().mutex);
  *address = nullptr;
  if (bytes > device().memory - std::min(device().memory, device().allocated))
    return cudaErrorMemoryAllocation;
  *address = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  fill_memory(*address, bytes);
  device().allocated += bytes;
  device().blocks[*address] = bytes;
  return cudaSuccess;
}

// Does not wait, as the real one does without promising it: what is given back holds other values
// at once and after all that still runs.
cudaError_t release(void* address) {
  const std::lock_guard lock(device().mutex);
  if (address == nullptr) return cudaSuccess;
  const auto found = device().blocks.find(address);
  if (found == device().blocks.end()) return cudaErrorInvalidValue;
  device().allocated -= found->second;
  device().given_back.insert(device().blocks.extract(found));
  const auto is_idle = [](const CUstream_st* stream) { return stream->items.empty(); };
  if (!std::ranges::all_of(device().streams, is_idle)) return cudaSuccess;
  for (const auto& [unused, bytes] : device().given_back) std::free(unused);
  device().given_back.clear();
  return cudaSuccess;
}

std::string short_name(const char* text) {
  const std::string name = text;
  int depth = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<') ++depth;
    if (name[i] == '>') --depth;
    if (name[i] == ',' && depth == 0) return name.substr(0, i);
  }
  return name;
}

void run_blocks(const std::string& name, const dim3& blocks, const dim3& threads,
                const std::function<void()>& kernel) {
  here.blocks = blocks;
  here.threads = threads;
  for (unsigned int z = 0; z < blocks.z; ++z) {
    for (unsigned int y = 0; y < blocks.y; ++y) {
      for (unsigned int x = 0; x < blocks.x; ++x) {
        here.block = {x, y, z};
        fill_memory(__start_cuda_shared,
                    static_cast<std::size_t>(__stop_cuda_shared - __start_cuda_shared));
        run_block(name.c_str(), kernel, device().random);
      }
    }
  }
}

}  // namespace

void set_seed(std::uint64_t seed) {
  const std::lock_guard lock(device().mutex);
  device().random = {seed};
  // 0x51: 5.6e10 as a float, 1.9e84 as a double. 0xFF: NaN, and -1.
  device().fill = seed % 2 == 0 ? 0x51 : 0xFF;
}

std::vector<Place> places() {
  const std::lock_guard lock(device().mutex);
  return {device().places.begin(), device().places.end()};
}

void forget_places() {
  const std::lock_guard lock(device().mutex);
  device().places.clear();
}

void leave_out(const std::optional<Place>& place) {
  const std::lock_guard lock(device().mutex);
  device().left_out = place;
}

void set_devices(int count, const char* name) {
  device().devices = count;
  device().name = name;
}
void set_memory(std::size_t bytes) { device().memory = bytes; }
std::size_t allocated() { return device().allocated; }
void spend(std::int64_t microseconds) { device().clock += microseconds; }
std::int64_t spent() { return device().clock; }

int lane() { return static_cast<int>(this_thread() % 32); }

void barrier(const Site& site) {
  if (stands("barrier", site)) stop_at_barrier();
}

void warp_barrier(const Site& site) {
  if (stands("barrier", site)) stop_at_warp();
}

// Two sets in turn: whoever comes to the next exchange before others have read this one leaves it
// as it is.
std::uint64_t exchange(std::uint64_t value, int from, const Site&) {
  static std::uint64_t given[2][1024];
  static unsigned char turns[1024];
  const std::size_t thread = this_thread();
  const unsigned char turn = turns[thread] ^= 1;
  given[turn][thread] = value;
  stop_at_warp();
  return given[turn][thread / 32 * 32 + static_cast<std::size_t>(from)];
}

std::mutex& mutex() { return device().mutex; }
std::condition_variable& changed() { return device().changed; }
Random& random() { return device().random; }

int& current_device() {
  thread_local int current = 0;
  return current;
}

void enqueue(cudaStream_t stream, std::function<void()> work) {
  enqueue_new(stream, [work = std::move(work)] {
    return Work([work] {
      work();
      return Progress::kDone;
    });
  });
}

void enqueue_new(cudaStream_t stream, NewWork work) {
  const std::lock_guard lock(device().mutex);
  if (stream->capture == nullptr) {
    enqueue_item(stream, {.work = work(), .waits_for = nullptr, .records = nullptr});
    return;
  }
  auto& nodes = stream->capture->nodes;
  nodes.push_back({std::move(work), stream->next_after});
  stream->next_after = {static_cast<int>(nodes.size()) - 1};
}

cudaError_t launch(const char* name, const cudaLaunchConfig_t& config,
                   std::function<void()> kernel) {
  const dim3& blocks = config.gridDim;
  const dim3& threads = config.blockDim;
  const std::uint64_t size = std::uint64_t{threads.x} * threads.y * threads.z;
  if (size == 0 || size > 1024 || blocks.x == 0 || blocks.y == 0 || blocks.z == 0 ||
      blocks.y > 65535 || blocks.z > 65535 || config.stream == nullptr) {
    return cudaErrorInvalidValue;
  }
  enqueue(config.stream, [name = short_name(name), blocks, threads, kernel = std::move(kernel)] {
    run_blocks(name, blocks, threads, kernel);
  });
  return cudaSuccess;
}

}  // namespace cuda_host

using cuda_host::device;
using cuda_host::Mark;

cudaError_t cudaGetDeviceCount(int* count) {
  *count = device().devices;
  return *count == 0 ? cudaErrorNoDevice : cudaSuccess;
}

cudaError_t cudaSetDevice(int index) {
  if (index < 0 || index >= device().devices) return cudaErrorInvalidDevice;
  cuda_host::current_device() = index;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* index) {
  *index = cuda_host::current_device();
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int index) {
  std::snprintf(properties->name, sizeof(properties->name), "%s", device().name.c_str());
  properties->major = 9;
  properties->minor = 0;
  return index < device().devices ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int size, int index) {
  std::snprintf(id, static_cast<std::size_t>(size), "0000:3B:%02X.0", static_cast<unsigned>(index));
  return index < device().devices ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = 2;  // few, so that grids are small and loops over them go round
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = device().memory;
  *free = *total - std::min(*total, device().allocated);
  return cudaSuccess;
}

cudaError_t cudaGetLastError() { return cudaSuccess; }

cudaError_t cudaMalloc(void** address, std::size_t bytes) {
  return cuda_host::allocate(address, bytes);
}
cudaError_t cudaFree(void* address) { return cuda_host::release(address); }
cudaError_t cudaMallocHost(void** address, std::size_t bytes) {
  return cuda_host::allocate(address, bytes);
}
cudaError_t cudaFreeHost(void* address) { return cuda_host::release(address); }

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  cuda_host::enqueue(stream, [=] { std::memcpy(to, from, bytes); });
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  cuda_host::enqueue(stream, [=] { std::memset(to, value, bytes); });
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int) {
  const std::lock_guard lock(device().mutex);
  *stream = std::make_unique<CUstream_st>().release();
  (*stream)->device = cuda_host::current_device();
  device().streams.push_back(*stream);
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::lock_guard lock(device().mutex);
  const std::unique_ptr<CUstream_st> owner(stream);
  while (!stream->items.empty() && cuda_host::advance(*stream)) {
  }
  std::erase(device().streams, stream);
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream, cuda_host::Site site) {
  std::unique_lock lock(device().mutex);
  if (stream->capture != nullptr) return cudaErrorStreamCaptureUnsupported;
  if (!cuda_host::stands("synchronize", site)) return cudaSuccess;
  cuda_host::run_all_of(lock, *stream);
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(cuda_host::Site site) {
  std::unique_lock lock(device().mutex);
  if (!cuda_host::stands("synchronize", site)) return cudaSuccess;
  const auto is_busy = [](const CUstream_st* stream) {
    return stream->device == cuda_host::current_device() && !stream->items.empty();
  };
  const auto busy = [&] { return std::ranges::find_if(device().streams, is_busy); };
  cuda_host::run_until(
      lock, [&] { return busy() == device().streams.end(); },
      [&] { return cuda_host::advance(**busy()); });
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int,
                                cuda_host::Site site) {
  const std::lock_guard lock(device().mutex);
  if (!cuda_host::stands("wait", site)) return cudaSuccess;
  const std::shared_ptr<Mark>& mark = event->mark;
  if (mark->graph == nullptr) {
    if (stream->capture != nullptr) return cudaErrorStreamCaptureIsolation;
    cuda_host::enqueue_item(stream, {.work = nullptr, .waits_for = mark, .records = nullptr});
    return cudaSuccess;
  }
  if (stream->capture == nullptr) {
    stream->capture = mark->graph;
    mark->graph->streams.insert(stream);
  }
  if (stream->capture != mark->graph) return cudaErrorStreamCaptureIsolation;
  if (mark->node >= 0) stream->next_after.push_back(mark->node);
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  *event = std::make_unique<CUevent_st>().release();
  (*event)->is_timed = flags == cudaEventDefault;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const std::unique_ptr<CUevent_st> owner(event);
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream, cuda_host::Site site) {
  const std::lock_guard lock(device().mutex);
  if (!cuda_host::stands("record", site)) return cudaSuccess;
  event->mark = std::make_shared<Mark>(Mark{.done = false, .stream = stream});
  if (stream->capture == nullptr) {
    cuda_host::enqueue_item(stream,
                            {.work = nullptr, .waits_for = nullptr, .records = event->mark});
    return cudaSuccess;
  }
  // One node that stands for all that the stream's next one would follow.
  auto& nodes = stream->capture->nodes;
  nodes.push_back({[] { return cuda_host::Work([] { return cuda_host::Progress::kDone; }); },
                   stream->next_after});
  stream->next_after = {static_cast<int>(nodes.size()) - 1};
  event->mark->graph = stream->capture;
  event->mark->node = stream->next_after.front();
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event, cuda_host::Site site) {
  std::unique_lock lock(device().mutex);
  if (event->mark->graph != nullptr) return cudaErrorStreamCaptureUnsupported;
  if (!cuda_host::stands("synchronize", site)) return cudaSuccess;
  const std::shared_ptr<Mark> mark = event->mark;
  cuda_host::run_until(
      lock, [&] { return mark->done; }, [&] { return cuda_host::advance_to(*mark); });
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  const std::lock_guard lock(device().mutex);
  for (const CUevent_st* event : {begin, end}) {
    if (!event->is_timed || event->mark->stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (!event->mark->done) return cudaErrorNotReady;
  }
  *milliseconds = static_cast<float>(end->mark->time - begin->mark->time) / 1000;
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  const std::lock_guard lock(device().mutex);
  if (stream->capture != nullptr) return cudaErrorStreamCaptureUnsupported;
  stream->capture = std::make_unique<CUgraph_st>().release();
  stream->capture->streams.insert(stream);
  stream->next_after.clear();
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::lock_guard lock(device().mutex);
  *graph = stream->capture;
  if (*graph == nullptr) return cudaErrorStreamCaptureUnsupported;
  // All that was captured must come before the end of the stream that began.
  std::set<int> before;
  std::vector<int> next = stream->next_after;
  while (!next.empty()) {
    const int node = next.back();
    next.pop_back();
    if (!before.insert(node).second) continue;
    const auto& after = (*graph)->nodes[static_cast<std::size_t>(node)].after;
    next.insert(next.end(), after.begin(), after.end());
  }
  const bool joined = before.size() == (*graph)->nodes.size();
  for (CUstream_st* member : (*graph)->streams) {
    member->capture = nullptr;
    member->next_after.clear();
  }
  return joined ? cudaSuccess : cudaErrorStreamCaptureUnjoined;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  *exec = std::make_unique<CUgraphExec_st>().release();
  (*exec)->graph = std::make_shared<const CUgraph_st>(*graph);
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const std::unique_ptr<CUgraph_st> owner(graph);
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  const std::unique_ptr<CUgraphExec_st> owner(exec);
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  cuda_host::enqueue_new(stream, [graph = exec->graph] { return cuda_host::GraphRun(graph); });
  return cudaSuccess;
}
