// The all-reduce of Communicator against MPI_Allreduce, in turns, in one run:
//
//   mpirun --bind-to none --oversubscribe --mca mpi_yield_when_idle 1 -np 2 all_reduce_bench [MB
//   [repeats]]
#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trainer/comm/mpi/mpi_communicator.h"
#include "trainer/comm/wired_communicator.h"

namespace coxswain::comm {
namespace {

using Clock = std::chrono::steady_clock;

// What the caller wants of MPI itself: it belongs to the communication thread.
struct MpiAllreduce {
  std::span<float> values;
  std::atomic<bool> wanted = false;
};

// The wire that make_mpi_communicator uses, with a hook to run MPI_Allreduce on its thread.
class HookedWire final : public Wire {
 public:
  HookedWire(std::unique_ptr<Wire> wire, MpiAllreduce& hook)
      : wire_(std::move(wire)), hook_(hook) {}

  int rank() const override { return wire_->rank(); }
  int size() const override { return wire_->size(); }
  void send(int peer, int tag, const Pieces& pieces, MessageId id) override {
    wire_->send(peer, tag, pieces, id);
  }
  void receive(int peer, int tag, const Pieces& pieces, MessageId id) override {
    wire_->receive(peer, tag, pieces, id);
  }
  void send_beats() override { wire_->send_beats(); }
  News poll() override {
    if (hook_.wanted) {
      MPI_Allreduce(MPI_IN_PLACE, hook_.values.data(), static_cast<int>(hook_.values.size()),
                    MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      hook_.wanted = false;
      hook_.wanted.notify_one();
    }
    return wire_->poll();
  }
  void close() override { wire_->close(); }

 private:
  std::unique_ptr<Wire> wire_;
  MpiAllreduce& hook_;
};

struct Contestant {
  std::string name;
  std::function<void()> run;
  std::vector<double> seconds = {};
};

// The time of the slowest rank.
double slowest(Communicator& communicator, double own_seconds) {
  std::vector<float> seconds(static_cast<std::size_t>(communicator.size()), 0.0F);
  seconds[static_cast<std::size_t>(communicator.rank())] = static_cast<float>(own_seconds);
  communicator.wait(
      communicator.all_reduce_sum(in_rank_order(communicator.size()), {{seconds}, 0}));
  return *std::max_element(seconds.begin(), seconds.end());
}

void compete(Communicator& communicator, std::span<float> values, Contestant& contestant) {
  std::fill(values.begin(), values.end(), 1.0F);
  communicator.barrier();
  const auto start = Clock::now();
  contestant.run();
  const double own = std::chrono::duration<double>(Clock::now() - start).count();
  contestant.seconds.push_back(slowest(communicator, own));
  const auto expected = static_cast<float>(communicator.size());
  if (std::count(values.begin(), values.end(), expected) != std::ssize(values)) {
    throw Error(ExitCode::kInternal, "[bench] wrong sum by " + contestant.name);
  }
}

void report(std::vector<Contestant>& contestants, double bytes) {
  for (Contestant& contestant : contestants) {
    std::sort(contestant.seconds.begin(), contestant.seconds.end());
    const double best = contestant.seconds.front();
    const double median = contestant.seconds[contestant.seconds.size() / 2];
    fmt::print("{:<16} best {:8.3f} ms {:6.2f} GB/s   median {:8.3f} ms {:6.2f} GB/s\n",
               contestant.name, best * 1e3, bytes / best * 1e-9, median * 1e3,
               bytes / median * 1e-9);
  }
  const auto ratio = [&](std::size_t at) {
    return contestants[1].seconds[at] / contestants[0].seconds[at];
  };
  fmt::print("ratio            best {:.2f}   median {:.2f}\n", ratio(0),
             ratio(contestants[0].seconds.size() / 2));
}

void run(double megabytes, int repeats) {
  std::vector<float> values(static_cast<std::size_t>(megabytes * 1e6 / sizeof(float)));
  MpiAllreduce hook{.values = values};
  const auto communicator = make_wired_communicator(
      [&] { return std::make_unique<HookedWire>(open_mpi_wire(), hook); }, {});
  const ReductionPlan plan = in_rank_order(communicator->size());
  std::vector<Contestant> contestants = {
      {"ours",
       [&] {
         communicator->wait(communicator->all_reduce_sum(plan, {{values}, 0}));
       }},
      {"MPI_Allreduce", [&] {
         hook.wanted = true;
         communicator->broadcast({}, 0);  // wakes the communication thread
         hook.wanted.wait(true);
       }}};
  for (int round = 0; round < repeats + 1; ++round) {
    for (Contestant& contestant : contestants) {
      compete(*communicator, values, contestant);
      if (round == 0) contestant.seconds.clear();  // warms up
    }
  }
  if (communicator->rank() == 0) {
    fmt::print("{} ranks, {:.3f} MB of float, {} rounds\n", communicator->size(), megabytes,
               repeats);
    report(contestants, megabytes * 1e6);
    std::fflush(stdout);
  }
  communicator->finish();
}

}  // namespace
}  // namespace coxswain::comm

int main(int argc, char** argv) {
  try {
    coxswain::comm::run(argc > 1 ? std::atof(argv[1]) : 45, argc > 2 ? std::atoi(argv[2]) : 15);
    return 0;
  } catch (const coxswain::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    _exit(static_cast<int>(error.code()));
  }
}
