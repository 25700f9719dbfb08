#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// A device on the host, behind the header cuda_runtime.h of this folder.
//
// Kernels: blocks one after another, the threads of a block as fibers, which change places at
// barriers and shuffles alone, in an order drawn from the seed. A barrier that not all threads
// reach ends the process with the kernel's name. Shared memory before each block, and memory that
// is allocated, hold a pattern drawn from the seed: who reads what nobody wrote gets other results
// with another seed.
//
// Streams: queues in which work waits until somebody waits for it. Then no more than what that
// needs is done, and a few things besides, drawn from the seed. So an order that no event, stream
// or wait demands is not kept. A stream that waits for another device's (nccl.h) leaves the thread
// that asks to that one's work, then to sleep until its own thread has enqueued more.
namespace cuda_host {

// A place in the sources where somebody waits: a barrier, an event's record, a wait for it, or for
// a stream.
struct Place {
  std::string kind;  // "barrier", "record", "wait", "synchronize"
  std::string file;  // its name without folders
  unsigned int line = 0;
  auto operator<=>(const Place&) const = default;
};

// Nothing may be under way.
void set_seed(std::uint64_t seed);

// All places met since they were forgotten.
std::vector<Place> places();
void forget_places();
// Makes as if it were not in the sources; nothing: all are.
void leave_out(const std::optional<Place>& place);

void set_devices(int count, const char* name = "a host");
void set_memory(std::size_t bytes);  // what there is to allocate
std::size_t allocated();

// The device's clock stands but for what its work says that it takes.
void spend(std::int64_t microseconds);  // by what runs
std::int64_t spent();

}  // namespace cuda_host
