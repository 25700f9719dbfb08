#pragma once

#include <deque>
#include <memory>
#include <set>
#include <vector>

#include "tests/support/cuda_host/cuda_runtime.h"
#include "tests/support/cuda_host/work.h"

// What the runtime's handles point to.

namespace cuda_host {

// What an event's record stands for: done once the stream has come to it; inside a capture, the
// node after which it comes.
struct Mark {
  bool done = false;
  CUstream_st* stream = nullptr;
  CUgraph_st* graph = nullptr;
  int node = -1;
  std::int64_t time = 0;  // of the clock
};

struct Item {
  Work work;
  std::shared_ptr<Mark> waits_for;
  std::shared_ptr<Mark> records;
};

struct Node {
  NewWork work;
  std::vector<int> after;
};

}  // namespace cuda_host

struct CUgraph_st {
  std::vector<cuda_host::Node> nodes;
  std::set<CUstream_st*> streams;
};

struct CUgraphExec_st {
  std::shared_ptr<const CUgraph_st> graph;
};

struct CUevent_st {
  std::shared_ptr<cuda_host::Mark> mark = std::make_shared<cuda_host::Mark>(true);
  bool is_timed = false;
};

struct CUstream_st {
  int device = 0;
  std::deque<cuda_host::Item> items;
  CUgraph_st* capture = nullptr;
  std::vector<int> next_after;  // nodes of the capture that the next one follows
};
