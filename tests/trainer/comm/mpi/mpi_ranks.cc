// One rank of the tests over real MPI; mpi_ranks_test starts it with mpirun and reads what it
// prints.
//
//   mpi_ranks sums      checks sums, broadcasts, barriers        prints "rank R wrong W"
//   mpi_ranks overlap   a delayed exchange beside computation    prints "exposed S of D" in ms
//   mpi_ranks beats     100 beats to rank 0 lie unread           prints "beats N in P polls"
//   mpi_ranks idle      the last rank comes a second late        prints "rank R waiting C idle C",
//   CPU share mpi_ranks stop|kill WORK   the last rank stops or dies, the others are at WORK: sum,
//   barrier, compute
//                                                                prints "rank R lost L after S"
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <ctime>
#include <functional>
#include <string>
#include <thread>

#include "tests/trainer/comm/mpi/delayed_wire.h"
#include "tests/trainer/comm/rank_checks.h"
#include "trainer/comm/mpi/mpi_communicator.h"
#include "trainer/comm/wired_communicator.h"

namespace coxswain::comm {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr int kWrongCommand = 2;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

void say(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

int check_sums() {
  const auto communicator = make_mpi_communicator({});
  const int size = communicator->size();
  int wrong = wrong_sums(*communicator, in_rank_order(size), 21);
  wrong += wrong_sums(*communicator, halving_tree(8, size), 22);
  wrong += wrong_broadcasts(*communicator);
  constexpr std::int64_t kCount = 1'300'003;
  const auto plan = in_rank_order(size);
  const auto expected = plain_sum(plan, kCount, 23);
  for (const std::int64_t bucket : {kCount, std::int64_t{65'537}, std::int64_t{9'999}}) {
    wrong += sum_in_buckets(*communicator, plan, kCount, bucket, 23) == expected ? 0 : 1;
  }
  communicator->barrier();
  communicator->finish();
  say(fmt::format("rank {} wrong {}", communicator->rank(), wrong));
  return 0;
}

// How long a sum is waited for if this rank computes for `compute` meanwhile. The least of several,
// since other programs may hold the cores.
double exposed_milliseconds(Communicator& communicator, std::chrono::milliseconds compute) {
  std::vector<float> values(100'000, 1.0F);
  double least = 1e9;
  for (int round = 0; round < 12; ++round) {
    communicator.barrier();
    const auto ticket =
        communicator.all_reduce_sum(in_rank_order(communicator.size()), {{values}, 0});
    const auto start = Clock::now();
    while (Clock::now() - start < compute) {
    }
    const auto done = Clock::now();
    communicator.wait(ticket);
    least = std::min(least, milliseconds_since(done));
  }
  return least;
}

int measure_overlap() {
  const auto open = [] { return std::make_unique<test::DelayedWire>(open_mpi_wire(), 10ms); };
  const auto communicator = make_wired_communicator(open, {});
  const double alone = exposed_milliseconds(*communicator, 0ms);
  const double beside = exposed_milliseconds(*communicator, 100ms);
  communicator->finish();
  say(fmt::format("exposed {:.3f} of {:.3f}", beside, alone));
  return 0;
}

// Data that is sent after the beats tells that they are there, or nearly.
int count_beats() {
  constexpr int kBeats = 100;
  const auto wire = open_mpi_wire();
  std::byte token{};
  std::size_t beats = 0;
  if (wire->rank() == 1) {
    for (int i = 0; i < kBeats; ++i) wire->send_beats();
    wire->send(0, 1, {{&token, 1}}, 1);
  } else if (wire->rank() == 0) {
    std::this_thread::sleep_for(500ms);
    wire->receive(1, 1, {{&token, 1}}, 1);
  }
  int polls = 0;
  const auto end = Clock::now() + 5s;
  while (wire->rank() == 0 && beats < kBeats && Clock::now() < end) {
    const std::size_t more = wire->poll().beats.size();
    beats += more;
    polls += more > 0 ? 1 : 0;
  }
  if (wire->rank() == 0) say(fmt::format("beats {} in {} polls", beats, polls));
  _exit(0);
}

// CPU seconds of this process for each second in `call`.
double cpu_share(const std::function<void()>& call) {
  const auto wall = Clock::now();
  const std::clock_t cpu = std::clock();
  call();
  return 1e3 * static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC / milliseconds_since(wall);
}

int measure_idle() {
  const auto communicator = make_mpi_communicator({});
  const bool is_last = communicator->rank() == communicator->size() - 1;
  communicator->barrier();
  const double waiting = cpu_share([&] {
    if (is_last) std::this_thread::sleep_for(1s);
    communicator->barrier();
  });
  const double idle = cpu_share([] { std::this_thread::sleep_for(1s); });
  communicator->finish();
  say(fmt::format("rank {} waiting {:.4f} idle {:.4f}", communicator->rank(), waiting, idle));
  return 0;
}

void work_until_lost(Communicator& communicator, const std::string& work) {
  std::vector<float> values(3'000'000, 1.0F);
  const auto plan = in_rank_order(communicator.size());
  while (work == "sum") communicator.wait(communicator.all_reduce_sum(plan, {{values}, 0}));
  while (work == "barrier") communicator.barrier();
  std::this_thread::sleep_for(20s);  // computes: on_lost speaks
}

[[noreturn]] void lose_last_rank(int signal, const std::string& work) {
  auto started = Clock::now();
  int rank = -1;
  const auto leave = [&](const PeerLost& lost) {
    say(fmt::format("rank {} lost {} after {:.3f}", rank, lost.rank(),
                    milliseconds_since(started) / 1e3));
    std::this_thread::sleep_for(1s);  // the others report too before mpirun sees an end
    _exit(static_cast<int>(lost.code()));
  };
  const auto communicator = make_mpi_communicator(
      {.peer_deadline_seconds = 2,
       .on_lost = work == "compute" ? std::function<void(const PeerLost&)>(leave) : nullptr});
  rank = communicator->rank();
  communicator->barrier();
  started = Clock::now();
  if (rank == communicator->size() - 1) {
    std::thread([signal] {
      std::this_thread::sleep_for(100ms);  // in the middle of the work
      raise(signal);
    }).detach();
  }
  try {
    work_until_lost(*communicator, work);
  } catch (const PeerLost& lost) {
    leave(lost);
  }
  _exit(1);
}

// As `coxswain-trainer rank` does: mpirun watches a parent that outlives the rank.
int supervised(int signal, const std::string& work) {
  const pid_t child = fork();
  if (child == 0) lose_last_rank(signal, work);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) std::this_thread::sleep_for(4s);
  return 0;
}

int run(const std::vector<std::string>& arguments) {
  if (arguments == std::vector<std::string>{"sums"}) return check_sums();
  if (arguments == std::vector<std::string>{"overlap"}) return measure_overlap();
  if (arguments == std::vector<std::string>{"beats"}) return count_beats();
  if (arguments == std::vector<std::string>{"idle"}) return measure_idle();
  if (arguments.size() == 2 && arguments[0] == "stop") return supervised(SIGSTOP, arguments[1]);
  if (arguments.size() == 2 && arguments[0] == "kill") return supervised(SIGKILL, arguments[1]);
  return kWrongCommand;
}

}  // namespace
}  // namespace coxswain::comm

int main(int argc, char** argv) {
  try {
    return coxswain::comm::run(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const coxswain::Error& error) {
    fmt::print("{}\n", error.what());
    std::fflush(stdout);
    _exit(static_cast<int>(error.code()));
  }
}
