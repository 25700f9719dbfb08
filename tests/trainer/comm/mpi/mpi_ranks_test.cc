#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <regex>
#include <string>
#include <vector>

namespace coxswain::comm {
namespace {

// What `ranks` ranks of mpi_ranks print together.
std::string output_of(int ranks, const std::string& arguments) {
  const std::string command = fmt::format(
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout -k 1 30 "
      "mpirun --bind-to none --oversubscribe --mca mpi_yield_when_idle 1 -np {} {} {} 2>&1",
      ranks, MPI_RANKS, arguments);
  std::string output;
  std::array<char, 4096> block{};
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return "mpirun did not start";
  while (const std::size_t count = std::fread(block.data(), 1, block.size(), pipe)) {
    output.append(block.data(), count);
  }
  pclose(pipe);
  return output;
}

// The numbers of every line that matches, in order of the first.
std::vector<std::vector<double>> matches(const std::string& output, const std::string& pattern) {
  const std::regex expression(pattern);
  std::vector<std::vector<double>> found;
  for (std::sregex_iterator it(output.begin(), output.end(), expression), end; it != end; ++it) {
    std::vector<double> numbers;
    for (std::size_t i = 1; i < it->size(); ++i) numbers.push_back(std::stod((*it)[i]));
    found.push_back(numbers);
  }
  std::sort(found.begin(), found.end());
  return found;
}

TEST(MpiRanks, sum_broadcast_and_meet_as_ranks_in_threads_do) {
  for (const int ranks : {1, 2, 3, 4}) {
    const std::string output = output_of(ranks, "sums");
    const auto wrong = matches(output, "rank (\\d+) wrong (\\d+)");
    ASSERT_EQ(wrong.size(), static_cast<std::size_t>(ranks)) << output;
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(wrong[static_cast<std::size_t>(rank)], (std::vector<double>{1.0 * rank, 0}));
    }
  }
}

void expect_rank_2_named(const std::string& arguments) {
  const std::string output = output_of(3, arguments);
  const auto lost = matches(output, "rank (\\d+) lost (\\d+) after ([\\d.]+)");
  ASSERT_EQ(lost.size(), 2U) << output;
  for (int rank = 0; rank < 2; ++rank) {
    const auto& seen = lost[static_cast<std::size_t>(rank)];
    EXPECT_EQ(seen[0], rank);
    EXPECT_EQ(seen[1], 2);
    EXPECT_LT(seen[2], 0.1 + 2 + 1) << "the deadline is 2 s";
  }
}

TEST(MpiRanks, name_a_stopped_rank_in_the_middle_of_a_sum) { expect_rank_2_named("stop sum"); }
TEST(MpiRanks, name_a_stopped_rank_at_a_barrier) { expect_rank_2_named("stop barrier"); }
TEST(MpiRanks, name_a_stopped_rank_while_they_compute) { expect_rank_2_named("stop compute"); }
TEST(MpiRanks, name_a_killed_rank) { expect_rank_2_named("kill sum"); }

TEST(MpiRanks, hear_all_beats_that_lie_unread) {
  const std::string output = output_of(2, "beats");
  const auto heard = matches(output, "beats (\\d+) in (\\d+) polls");
  ASSERT_EQ(heard.size(), 1U) << output;
  EXPECT_EQ(heard[0][0], 100);
  EXPECT_LE(heard[0][1], 50) << "a poll hears more than one; with more ranks, more";
}

TEST(MpiRanks, leave_the_cores_to_others_while_nothing_moves) {
  const std::string output = output_of(2, "idle");
  const auto shares = matches(output, "rank (\\d+) waiting ([\\d.]+) idle ([\\d.]+)");
  ASSERT_EQ(shares.size(), 2U) << output;
  for (const auto& rank : shares) {
    EXPECT_LT(rank[1], 0.15) << "of a core while a peer is waited for";
    EXPECT_LT(rank[2], 0.03) << "of a core while nothing is asked";
  }
}

TEST(MpiRanks, hide_the_exchange_behind_computation) {
  const std::string output = output_of(2, "overlap");
  const auto exposed = matches(output, "exposed ([\\d.]+) of ([\\d.]+)");
  ASSERT_EQ(exposed.size(), 2U) << output;
  for (const auto& rank : exposed) {
    EXPECT_GE(rank[1], 20.0) << "alone, the two delayed messages of a sum are waited for";
    EXPECT_LT(rank[0], 0.2 * 20.0);
  }
}

}  // namespace
}  // namespace coxswain::comm
