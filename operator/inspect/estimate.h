#pragma once

#include <optional>
#include <string>
#include <vector>

// PURE: how fast a training would be on so many workers, from the speed of one rank and what the
// network takes. Formulas: alpha-beta costs of Thakur, Rabenseifner, Gropp, "Optimization of
// Collective Communication Operations in MPICH" (2005); overlap as gradients become final in
// backward; faults by Daly, "A higher order estimate of the optimum checkpoint interval" (2006).
namespace coxswain::inspect {

// Value. Of one direction of a node's link.
struct Network {
  double bytes_per_second = 1.25e9;
  double seconds_a_message = 50e-6;
  bool operator==(const Network&) const = default;
};

// "10Gb/s,50us", either alone; bits with b, bytes with B. nullopt: it is none.
std::optional<Network> parse_network(const std::string& text);
// "30s", "5min", "12h", "30d", "50us", "2ms"; nullopt: it is none.
std::optional<double> parse_seconds(const std::string& text);
// "1,2,4"; nullopt: it is none, or not all are 1 to 4096.
std::optional<std::vector<int>> parse_sizes(const std::string& text);

enum class Exchange { kAllReduce, kParameterServer, kAsynchronous };

// Value. What is trained, and how fast one rank is that waits for nobody.
struct Work {
  double samples_per_second = 0;
  int batch = 1;                 // of a rank
  bool batch_is_global = false;  // of all ranks together
  int accumulate = 1;            // batches of a step
  double gradient_bytes = 0;
  double sent_share = 1;      // of them, where gradients travel in fewer bytes
  double samples_in_all = 0;  // 0: not known
  double steps_in_all = 0;    // 0: not known; with the samples too, whichever are over first
  int slots = 1;              // ranks of a worker
  double cores = 1;           // of a worker, or its GPUs
  // Of a rank, which compute and exchange by turns; 0: it computes elsewhere, as GPUs do.
  double cores_in_turns = 1;
  double ranks_a_core = 1;  // above 1: they compute by turns too
  Exchange exchange = Exchange::kAllReduce;
  int servers = 0;  // 0: as many as workers
  double server_cores = 1;
};

// Value. A speed that was seen on so many workers. What it falls behind the model is taken for work
// that each worker makes for all others, as servers do that share their cores.
struct Seen {
  int workers = 0;
  double samples_per_second = 0;
};

struct Estimate {
  int workers = 0;
  int ranks = 0;
  double step_seconds = 0;
  double samples_per_second = 0;
  double efficiency = 0;  // 1: as fast as ranks that know nothing of each other
  double cores = 0;       // or GPUs, the servers' too
  double seconds = 0;     // to the end; 0: not known
  double core_hours = 0;
};

Estimate estimate(const Work& work, const Network& network, int workers,
                  const std::optional<Seen>& seen = std::nullopt);

// Value. What breaks, and what that costs; seconds.
struct Faults {
  double between_of_a_node = 0;  // mean time between two faults of one node
  double restart = 30;           // until training goes on
  double save = 0.1;             // that a checkpoint holds training up
};

// The share of its time in which a job gets on, when it saves every so many seconds.
double goodput(const Faults& faults, int workers, double checkpoint_seconds);
double best_checkpoint_seconds(const Faults& faults, int workers);

// The sizes with the fewest core-hours (of two alike the faster), and with the shortest time.
const Estimate& cheapest(const std::vector<Estimate>& estimates);
const Estimate& fastest(const std::vector<Estimate>& estimates);

}  // namespace coxswain::inspect
