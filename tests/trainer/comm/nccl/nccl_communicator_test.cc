#include "trainer/comm/nccl/nccl_communicator.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "tests/support/cuda_host/device.h"
#include "tests/support/cuda_host/nccl_ranks.h"
#include "tests/support/thread_communicator.h"
#include "tests/trainer/comm/rank_checks.h"
#include "trainer/backend/cuda/cuda_backend.h"
#include "trainer/backend/cuda/cuda_executable.h"
#include "trainer/backend/cuda/cuda_memory.h"

// Ranks with a device each of tests/support/cuda_host, over its nccl.h.
namespace coxswain::comm {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

// What one rank works with.
struct Rank {
  Communicator& communicator;
  backend::Backend& backend;
  tensor::Memory& memory;
  std::shared_ptr<void> kept = nullptr;  // until after finish(), since what goes waits
};

struct Setup {
  int size = 2;
  std::uint64_t seed = 1;
  NcclOptions nccl = {};
  WiredOptions host = {};
};

// Runs `body` on each rank, and gives what each threw; "": nothing. Without `finishes` the
// communicators are dropped. Who loses a peer aborts, as a process does that leaves.
std::vector<std::string> run_ranks(const Setup& setup, const std::function<void(Rank&)>& body,
                                   bool finishes = true) {
  cuda_host::set_seed(setup.seed);
  cuda_host::set_devices(setup.size);
  test::ThreadNetwork network(setup.size);
  std::vector<std::string> errors(static_cast<std::size_t>(setup.size));
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < setup.size; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          const auto backend = backend::make_cuda_backend(rank);
          backend::cuda::Shared& shared = backend::cuda::shared_of(*backend);
          backend::cuda::CudaMemory memory(shared.queue, shared.steps);
          std::mutex mutex;
          std::function<bool()> abort;
          WiredOptions host = setup.host;
          host.on_given_up = [&](const Error&) {
            const std::lock_guard lock(mutex);
            if (abort) abort();
          };
          host.on_lost = host.on_given_up;
          auto ranks = make_nccl_communicator(network.join(rank, host), *backend, setup.nccl);
          {
            const std::lock_guard lock(mutex);
            abort = ranks.abort;
          }
          Rank self{*ranks.communicator, *backend, memory, nullptr};
          body(self);
          if (finishes) ranks.communicator->finish();
          ranks.communicator.reset();
        } catch (const Error& error) {
          errors[static_cast<std::size_t>(rank)] = error.what();
        }
      });
    }
  }
  cuda_host::set_devices(1);
  return errors;
}

std::string first_of(const std::vector<std::string>& errors) {
  for (const std::string& error : errors)
    if (!error.empty()) return error;
  return "";
}

int differences(const std::vector<float>& a, const std::vector<float>& b) {
  int count = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    count += std::bit_cast<std::uint32_t>(a[i]) == std::bit_cast<std::uint32_t>(b[i]) ? 0 : 1;
  return count;
}

// This rank's parts on its device, in buckets, as steps of a training: written, summed and read.
class Steps {
 public:
  Steps(Rank& rank, ReductionPlan plan, std::int64_t count, std::int64_t bucket)
      : rank_(rank), plan_(std::move(plan)), count_(count), bucket_(bucket) {
    const int self = rank.communicator.rank();
    for (int part = plan_.first_part(self); part < plan_.first_part(self + 1); ++part)
      parts_.push_back(rank.memory.allocate(count));
    result_ = rank.memory.allocate(count);
  }

  // `given` differs from step to step. What is done with the sum comes behind it, on the device.
  void step(std::uint64_t given) {
    const std::vector<std::int64_t> rows{count_};
    rank_.backend.begin_step(rows);
    const int first = plan_.first_part(rank_.communicator.rank());
    for (std::size_t i = 0; i < parts_.size(); ++i)
      rank_.memory.write(part_values(count_, first + static_cast<int>(i), given),
                         parts_[i].slice());
    std::vector<Ticket> tickets;
    for (std::int64_t at = 0; at < count_; at += bucket_) {
      Reduction reduction;
      reduction.offset = at;
      for (const tensor::Buffer& part : parts_)
        reduction.parts.push_back(part.slice().range(at, std::min(bucket_, count_ - at)));
      tickets.push_back(rank_.communicator.all_reduce_sum(plan_, std::move(reduction)));
    }
    for (const Ticket ticket : tickets) rank_.communicator.wait(ticket);
    rank_.memory.copy(parts_[0].slice(), result_.slice());
    rank_.backend.end_step();
  }

  std::vector<float> result() { return rank_.memory.snapshot(result_.slice())(); }
  int wrong(std::uint64_t given) { return differences(result(), plain_sum(plan_, count_, given)); }

 private:
  Rank& rank_;
  ReductionPlan plan_;
  std::int64_t count_;
  std::int64_t bucket_;
  std::vector<tensor::Buffer> parts_;
  tensor::Buffer result_;
};

TEST(NcclSums, have_the_bits_of_the_plan) {
  for (const int size : {1, 2, 3, 4}) {
    for (const ReductionPlan& plan : {in_rank_order(size), halving_tree(8, size)}) {
      std::atomic<int> wrong = 0;
      const auto errors = run_ranks({.size = size}, [&](Rank& rank) {
        for (const std::int64_t count : {1, 63, 64, 65, 1000}) {
          Steps steps(rank, plan, count, 300);
          for (const std::uint64_t given : {1, 2, 3, 4, 5}) {
            steps.step(given);
            wrong += steps.wrong(given);
          }
        }
      });
      EXPECT_EQ(first_of(errors), "");
      EXPECT_EQ(wrong, 0) << size << " ranks, " << plan.total_parts() << " parts";
    }
  }
  EXPECT_EQ(cuda_host::living_communicators(), 0);
}

TEST(NcclSums, of_more_parts_than_a_kernel_takes_have_the_bits_of_the_plan) {
  ReductionPlan plan = halving_tree(512, 1);
  plan = {.parts_of_rank = {300, 300}, .adds = {}};
  for (int part = 1; part < 600; ++part) plan.adds.push_back({0, part});
  std::atomic<int> wrong = 0;
  const auto errors = run_ranks({.size = 2}, [&](Rank& rank) {
    Steps steps(rank, plan, 70, 70);
    steps.step(1);
    wrong += steps.wrong(1);
  });
  EXPECT_EQ(first_of(errors), "");
  EXPECT_EQ(wrong, 0);
}

TEST(NcclSums, in_nccls_own_order_are_the_same_on_all_ranks_and_near) {
  for (const int size : {2, 4}) {
    std::vector<std::vector<float>> sums(static_cast<std::size_t>(size));
    const auto errors = run_ranks({.size = size, .nccl = {.fixed_order = false}}, [&](Rank& rank) {
      Steps steps(rank, in_rank_order(size), 1000, 300);
      for (const std::uint64_t given : {1, 2, 3, 4}) steps.step(given);
      sums[static_cast<std::size_t>(rank.communicator.rank())] = steps.result();
    });
    ASSERT_EQ(first_of(errors), "");
    const std::vector<float> expected = plain_sum(in_rank_order(size), 1000, 4);
    for (const auto& sum : sums) EXPECT_EQ(differences(sum, sums[0]), 0);
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(sums[0][i], expected[i], 1e-5F * 0x1p20F);
  }
}

TEST(NcclCommunicator, carries_what_lies_on_the_host) {
  std::atomic<int> wrong = 0;
  const auto errors = run_ranks({.size = 3}, [&](Rank& rank) {
    wrong += wrong_sums(rank.communicator, in_rank_order(3), 1);
    wrong += wrong_broadcasts(rank.communicator);
    rank.communicator.barrier();
  });
  EXPECT_EQ(first_of(errors), "");
  EXPECT_EQ(wrong, 0);
}

// Lives, beats, and does not come to a sum.
TEST(NcclCommunicator, names_who_does_not_come) {
  std::mutex mutex;
  std::condition_variable over;
  bool is_over = false;
  const auto errors = run_ranks(
      {.size = 3, .host = {.peer_deadline = 1s, .step_deadline = 200ms}},
      [&](Rank& rank) {
        Steps steps(rank, in_rank_order(3), 100, 100);
        steps.step(1);
        std::unique_lock lock(mutex);
        if (rank.communicator.rank() == 1) {
          over.wait(lock, [&] { return is_over; });
          throw Error(ExitCode::kInternal, "was late");
        }
        lock.unlock();
        try {
          for (const std::uint64_t given : {2, 3, 4}) steps.step(given);
        } catch (...) {
          lock.lock();
          is_over = true;
          over.notify_all();
          throw;
        }
      },
      false);
  // Who gives up first leaves; another may then name that one.
  EXPECT_THAT(errors, testing::Contains(HasSubstr("[comm] rank 1 lives, but has kept the others")));
  for (const std::size_t rank : {0U, 2U}) EXPECT_NE(errors[rank], "");
  EXPECT_EQ(cuda_host::living_communicators(), 0);
}

// The host waits for its device, which waits for a rank that is gone.
TEST(NcclCommunicator, names_who_died_while_the_device_waits_for_it) {
  const auto errors = run_ranks(
      {.size = 3, .host = {.peer_deadline = 300ms}},
      [&](Rank& rank) {
        Steps steps(rank, in_rank_order(3), 100, 100);
        steps.step(1);
        if (rank.communicator.rank() == 2) throw Error(ExitCode::kInternal, "died");
        steps.step(2);
        steps.result();
        steps.step(3);
      },
      false);
  for (const std::size_t rank : {0U, 1U}) EXPECT_THAT(errors[rank], HasSubstr("rank 2 "));
  EXPECT_EQ(cuda_host::living_communicators(), 0);
}

// Waits for what the watching thread says.
class Told {
 public:
  void operator()(const Error& error) {
    const std::lock_guard lock(mutex_);
    what_ = error.what();
    code_ = error.code();
    told_.notify_all();
  }
  std::pair<std::string, ExitCode> wait() {
    std::unique_lock lock(mutex_);
    told_.wait_for(lock, 60s, [&] { return !what_.empty(); });
    return {what_, code_};
  }

 private:
  std::mutex mutex_;
  std::condition_variable told_;
  std::string what_;
  ExitCode code_ = ExitCode::kDone;
};

TEST(NcclCommunicator, tells_of_an_error_that_comes_beside_its_calls) {
  Told told;
  const NcclOptions options{.peer_deadline = 20ms,
                            .watch_interval = 1ms,
                            .on_broken = [&](const Error& error) { told(error); }};
  run_ranks(
      {.nccl = options},
      [&](Rank& rank) {
        if (rank.communicator.rank() == 1) return;
        cuda_host::break_nccl(0);
        const auto [what, code] = told.wait();
        cuda_host::break_nccl(-1);
        EXPECT_EQ(code, ExitCode::kPeerLost);
        EXPECT_THAT(what, HasSubstr("[nccl] remote process exited or there was a network error, "
                                    "and all ranks live"));
      },
      false);
}

TEST(NcclCommunicator, tells_of_gpus_that_find_no_way_to_each_other) {
  Told told;
  const NcclOptions options{.startup_deadline = 20ms,
                            .watch_interval = 1ms,
                            .on_broken = [&](const Error& error) { told(error); }};
  cuda_host::hold_nccl_back(true);
  std::jthread release([&] {
    const auto [what, code] = told.wait();
    EXPECT_EQ(code, ExitCode::kPeersMissing);
    EXPECT_THAT(what, HasSubstr("[nccl] connecting the GPUs has not ended within"));
    EXPECT_THAT(what, HasSubstr("NCCL_SOCKET_IFNAME"));
    cuda_host::hold_nccl_back(false);
  });
  EXPECT_EQ(first_of(run_ranks({.nccl = options}, [](Rank&) {})), "");
}

// Steps that nobody waits for before the end, then, at once, the end.
std::string check_sums(std::uint64_t seed) {
  constexpr int kRanks = 2;
  std::atomic<int> wrong = 0;
  const auto errors = run_ranks({.size = kRanks, .seed = seed}, [&](Rank& rank) {
    const auto steps = std::make_shared<Steps>(rank, in_rank_order(kRanks), 200, 90);
    rank.kept = steps;
    if (seed % 4 == 3) return steps->step(1);
    for (std::uint64_t given = 1; given < 7; ++given) {
      steps->step(given);
      if (given % 2 == seed % 2) wrong += steps->wrong(given);
    }
  });
  return wrong == 0 ? first_of(errors) : "a sum is wrong";
}

constexpr std::uint64_t kSeeds = 16;

TEST(NcclMutants, nothing_is_found_where_nothing_is_left_out) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed)
    EXPECT_EQ(check_sums(seed), "") << "seed " << seed;
}

std::vector<std::string> places_in_the_sources() {
  constexpr std::string_view kCalls[] = {"cudaEventRecord(", "cudaEventSynchronize(",
                                         "cudaStreamSynchronize(", "cudaDeviceSynchronize(",
                                         "cudaStreamWaitEvent("};
  std::vector<std::string> result;
  for (const auto& entry : std::filesystem::directory_iterator("trainer/comm/nccl")) {
    std::ifstream file(entry.path());
    std::string line;
    for (int number = 1; std::getline(file, line); ++number) {
      const auto holds = [&](std::string_view call) { return line.find(call) != line.npos; };
      if (std::ranges::any_of(kCalls, holds))
        result.push_back(fmt::format("{}:{}", entry.path().filename().string(), number));
    }
  }
  return result;
}

bool is_noticed() {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed)
    if (!check_sums(seed).empty()) return true;
  return false;
}

TEST(NcclMutants, each_event_and_wait_is_missed) {
  cuda_host::forget_places();
  ASSERT_EQ(check_sums(0), "");
  std::vector<cuda_host::Place> places = cuda_host::places();
  std::erase_if(places, [](const auto& place) { return !place.file.starts_with("nccl_"); });
  std::vector<std::string> met;
  for (const cuda_host::Place& place : places)
    met.push_back(fmt::format("{}:{}", place.file, place.line));
  EXPECT_THAT(met, testing::UnorderedElementsAreArray(places_in_the_sources()));
  for (const cuda_host::Place& place : places) {
    cuda_host::leave_out(place);
    EXPECT_TRUE(is_noticed()) << fmt::format("nothing fails without the {} at {}:{}", place.kind,
                                             place.file, place.line);
  }
  cuda_host::leave_out(std::nullopt);
}

}  // namespace
}  // namespace coxswain::comm
