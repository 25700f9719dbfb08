// A rank of training steps whose compute is sleep: buckets of gradients are summed over TCP while
// backward goes on. Rank 0 prints what a step takes beyond its compute, in milliseconds.
//
//   step_bench RANK HOST:PORT,... BUCKETS MB_OF_A_BUCKET COMPUTE_MS STEPS
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "trainer/comm/tcp/tcp_wire.h"
#include "trainer/comm/wired_communicator.h"

namespace coxswain::comm {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

std::vector<net::Address> addresses_of(const std::string& text) {
  std::vector<net::Address> addresses;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::size_t colon = text.rfind(':', end);
    addresses.push_back({text.substr(at, colon - at), std::atoi(text.c_str() + colon + 1)});
    at = end + 1;
  }
  return addresses;
}

void run(int rank, const std::string& peers, int buckets, double megabytes, Seconds compute,
         int steps) {
  TcpOptions options;
  options.addresses = addresses_of(peers);
  options.hello.job = "bench";
  options.hello.role = "worker";
  options.hello.rank = rank;
  options.hello.world_size = static_cast<int>(options.addresses.size());
  options.secret = std::string(32, 'k');
  options.encrypt = false;  // as the peer's
  const auto communicator =
      make_wired_communicator([options] { return open_tcp_wire(options); }, {});
  const ReductionPlan plan = in_pairs(communicator->size());
  const auto length = static_cast<std::size_t>(megabytes * 1e6 / sizeof(float));
  std::vector<float> gradients(length * static_cast<std::size_t>(buckets), 1.0F);
  std::vector<double> exposed;
  for (int step = 0; step <= steps; ++step) {
    communicator->barrier();
    const auto start = Clock::now();
    std::vector<Ticket> tickets;
    for (std::size_t i = 0; i < static_cast<std::size_t>(buckets); ++i) {
      std::this_thread::sleep_until(start + (static_cast<double>(i + 1) / buckets) * compute);
      tickets.push_back(communicator->all_reduce_sum(
          plan, {{std::span(gradients).subspan(i * length, length)},
                 static_cast<std::int64_t>(i * length)}));
    }
    for (const Ticket ticket : tickets) communicator->wait(ticket);
    const Seconds beyond = Clock::now() - start - compute;
    if (step > 0) exposed.push_back(1e3 * beyond.count());  // the first one warms up
  }
  if (rank == 0) fmt::print("{{\"exposed\": [{:.2f}]}}\n", fmt::join(exposed, ", "));
  communicator->finish();
}

}  // namespace
}  // namespace coxswain::comm

int main(int argc, char** argv) {
  if (argc != 7) return 2;
  try {
    coxswain::comm::run(std::atoi(argv[1]), argv[2], std::atoi(argv[3]), std::atof(argv[4]),
                        std::chrono::milliseconds(std::atoi(argv[5])), std::atoi(argv[6]));
    return 0;
  } catch (const coxswain::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return static_cast<int>(error.code());
  }
}
