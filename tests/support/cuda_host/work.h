#pragma once

#include <cuda_runtime.h>

#include <condition_variable>
#include <functional>
#include <mutex>

#include "tests/support/cuda_host/fibers.h"

// What a stream holds, for those who enqueue more than a call (nccl.cc).
namespace cuda_host {

// kSome: not all, but something; kNone: it waits for others.
enum class Progress { kNone, kSome, kDone };
using Work = std::function<Progress()>;
// Called each time that it is to be done: once a launch of a graph that holds it.
using NewWork = std::function<Work()>;

void enqueue_new(cudaStream_t stream, NewWork work);

// Of the device's state; work runs under it.
std::mutex& mutex();
std::condition_variable& changed();
Random& random();

int& current_device();  // of this thread

}  // namespace cuda_host
