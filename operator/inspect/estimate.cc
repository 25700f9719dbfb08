#include "operator/inspect/estimate.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

namespace coxswain::inspect {

namespace {

constexpr double kBackward = 2.0 / 3;  // of a batch's computing: twice as much as forward
constexpr int kMostBuckets = 32;
constexpr double kInsideBytes = 4e9;     // a second, between ranks of one machine
constexpr double kInsideMessage = 5e-6;  // seconds
constexpr double kMessageWork = 5e-6;    // of a core, to send or take one
constexpr double kSumBytes = 8e9;        // a second, added by a core
// Where the thread that exchanges has no core of its own (measured by tests/bench/estimate on 2
// cores, with a core a rank): until it has its turn for one piece, and the bytes a second that a
// core takes and sends, each counted once.
constexpr double kTurn = 450e-6;
constexpr double kWireBytes = 3.4e9;
constexpr int kMostWorkers = 4096;

struct Unit {
  std::string_view name;
  double factor;
};

// A positive number and its unit.
template <std::size_t N>
std::optional<double> measure(std::string_view text, const Unit (&units)[N]) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number) || number <= 0) return std::nullopt;
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  for (const Unit& known : units)
    if (unit == known.name) return number * known.factor;
  return std::nullopt;
}

std::optional<double> parse_rate(std::string_view text) {
  constexpr Unit kUnits[] = {{"Kb/s", 125}, {"Mb/s", 125e3}, {"Gb/s", 125e6}, {"Tb/s", 125e9},
                             {"KB/s", 1e3}, {"MB/s", 1e6},   {"GB/s", 1e9}};
  return measure(text, kUnits);
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find(',', start), text.size());
    parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

// A gang, and what it sends.
struct Gang {
  const Work& work;
  const Network& network;
  int workers;
  double slots() const { return work.slots; }
  double ranks() const { return static_cast<double>(workers) * work.slots; }
  // Images of a rank in a step.
  double batch() const {
    return static_cast<double>(work.batch) * work.accumulate / (work.batch_is_global ? ranks() : 1);
  }
  double servers() const { return work.servers > 0 ? work.servers : workers; }
};

// Each rank owns a part of the bucket: it gets the others' shares of it, and sends them the sum.
// The ranks of a worker add theirs first, but coded ones, and what is left of them travels: one
// share of 2, 4 or 8 ranks.
double all_reduce_seconds(const Gang& gang, double bytes) {
  const double p = gang.ranks();
  const double s = gang.slots();
  const double w = gang.workers;
  const bool adds_first = gang.work.sent_share >= 1;
  const double shares = std::has_single_bit(static_cast<unsigned>(gang.work.slots)) ? 1 : 2;
  const double sums = (p - 1) / p * bytes / kSumBytes;
  const double inside_bytes = 2 * (s - 1) / (adds_first ? s : p) * bytes;
  const double inside = s > 1 ? inside_bytes / kInsideBytes + 2 * kInsideMessage : 0;
  const double link_bytes =
      adds_first ? (1 + shares) * (w - 1) / w * bytes : 2 * s * (p - s) / p * bytes;
  const double link =
      w > 1 ? 2 * gang.network.seconds_a_message + link_bytes / gang.network.bytes_per_second : 0;
  return std::max(inside, link) + sums + 2 * (p - 1) * kMessageWork;
}

// To the servers, of whom each has a part: the busier of a worker's link and a server's.
double transfer_seconds(const Gang& gang, double bytes) {
  const double k = gang.servers();
  const double busier = std::max(gang.slots(), gang.ranks() / k);
  return gang.network.seconds_a_message + busier * bytes / gang.network.bytes_per_second +
         k * kMessageWork;
}

double push_seconds(const Gang& gang, double bytes) {
  return transfer_seconds(gang, bytes) + gang.ranks() / gang.servers() * bytes / kSumBytes;
}

// Of the cores that compute: bytes that a rank sends and takes.
double wire_seconds(const Work& work, double bytes) {
  return work.cores_in_turns > 0 ? bytes / kWireBytes / work.cores_in_turns : 0;
}

// Value. A step's computing, the part of it that is its last backward, and what the exchange takes
// from that one.
struct Computing {
  double seconds;
  double backward;
  double a_turn;
  double in_all;
};

// A step in which backward hands over its gradients in `buckets` pieces, each sent as soon as it is
// final and the one before is through.
template <class Cost>
double step_with(const Computing& computing, double bytes, int buckets, const Cost& cost) {
  const double taken = computing.a_turn * buckets + computing.in_all;
  const double seconds = computing.seconds + taken;
  const double backward = computing.backward + taken;
  double through = 0;
  for (int i = 1; i <= buckets; ++i) {
    const double final_at = seconds - backward * (buckets - i) / buckets;
    through = std::max(through, final_at) + cost(bytes / buckets);
  }
  return std::max(seconds, through);
}

// With the pieces that suit best, as the trainer measures them.
template <class Cost>
double best_step(const Computing& computing, double bytes, const Cost& cost) {
  double best = step_with(computing, bytes, 1, cost);
  for (int buckets = 2; buckets <= kMostBuckets; ++buckets)
    best = std::min(best, step_with(computing, bytes, buckets, cost));
  return best;
}

double step_seconds(const Gang& gang) {
  const Work& work = gang.work;
  const double p = gang.ranks();
  const double bytes = work.gradient_bytes;
  const double sent = bytes * work.sent_share;
  const double seconds = gang.batch() / work.samples_per_second * work.ranks_a_core;
  Computing computing{.seconds = seconds,
                      .backward = seconds * kBackward / work.accumulate,
                      .a_turn = work.cores_in_turns > 0 ? kTurn : 0,
                      .in_all = wire_seconds(work, sent)};
  if (work.exchange == Exchange::kAllReduce) {
    if (p <= 1) return seconds;
    computing.in_all = wire_seconds(work, 2 * 2 * (p - 1) / p * sent);
    return best_step(computing, sent, [&](double part) { return all_reduce_seconds(gang, part); });
  }
  const double pushed =
      best_step(computing, sent, [&](double part) { return push_seconds(gang, part); });
  const double pull = std::max(transfer_seconds(gang, bytes), wire_seconds(work, bytes));
  // Servers agree that all is finite before weights leave; asynchronous ones wait for no other.
  const double agree =
      work.exchange == Exchange::kParameterServer ? 2 * gang.network.seconds_a_message : 0;
  return pushed + agree + pull;
}

double unexplained(const Work& work, const Network& network, const std::optional<Seen>& seen) {
  if (!seen) return 0;
  const Gang gang{work, network, seen->workers};
  const double step = gang.ranks() * gang.batch() / seen->samples_per_second;
  return std::max(0.0, step - step_seconds(gang)) / seen->workers;
}

}  // namespace

std::optional<double> parse_seconds(const std::string& text) {
  constexpr Unit kUnits[] = {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1},    {"min", 60},
                             {"m", 60},    {"h", 3600},  {"d", 86400}};
  return measure(text, kUnits);
}

std::optional<Network> parse_network(const std::string& text) {
  Network network;
  bool has_rate = false, has_latency = false;
  for (const std::string& part : split(text)) {
    const auto rate = parse_rate(part);
    const auto latency = parse_seconds(part);
    if (rate.has_value() == latency.has_value()) return std::nullopt;
    if (std::exchange(rate ? has_rate : has_latency, true)) return std::nullopt;
    if (rate) network.bytes_per_second = *rate;
    if (latency) network.seconds_a_message = *latency;
  }
  return network;
}

std::optional<std::vector<int>> parse_sizes(const std::string& text) {
  std::vector<int> sizes;
  for (const std::string& part : split(text)) {
    int size = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), size);
    if (error != std::errc() || end != part.data() + part.size() || size < 1 || size > kMostWorkers)
      return std::nullopt;
    if (std::ranges::count(sizes, size) > 0) return std::nullopt;
    sizes.push_back(size);
  }
  return sizes;
}

Estimate estimate(const Work& work, const Network& network, int workers,
                  const std::optional<Seen>& seen) {
  const Gang gang{work, network, workers};
  Estimate result;
  result.workers = workers;
  result.ranks = workers * work.slots;
  result.step_seconds = step_seconds(gang) + unexplained(work, network, seen) * workers;
  result.samples_per_second = result.ranks * gang.batch() / result.step_seconds;
  result.efficiency = result.samples_per_second / (result.ranks * work.samples_per_second);
  result.seconds = work.samples_in_all / result.samples_per_second;
  const double by_steps = work.steps_in_all * result.step_seconds;
  if (by_steps > 0 && (result.seconds == 0 || by_steps < result.seconds)) result.seconds = by_steps;
  result.cores = workers * work.cores;
  if (work.exchange != Exchange::kAllReduce) result.cores += gang.servers() * work.server_cores;
  result.core_hours = result.seconds * result.cores / 3600;
  return result;
}

// Faults come at random, at any time as likely. What one interval with its save takes on average,
// with all that is lost and done again (Daly, equation 20).
double goodput(const Faults& faults, int workers, double checkpoint_seconds) {
  if (faults.between_of_a_node <= 0) return checkpoint_seconds / (checkpoint_seconds + faults.save);
  const double between = faults.between_of_a_node / workers;
  const double takes = between * std::exp(faults.restart / between) *
                       std::expm1((checkpoint_seconds + faults.save) / between);
  return checkpoint_seconds / takes;
}

double best_checkpoint_seconds(const Faults& faults, int workers) {
  // The goodput has one peak over the logarithm of the interval: closed in on by thirds.
  double low = std::log(0.1), high = std::log(1e7);
  for (int i = 0; i < 200; ++i) {
    const double a = low + (high - low) / 3, b = high - (high - low) / 3;
    const bool rises =
        goodput(faults, workers, std::exp(a)) < goodput(faults, workers, std::exp(b));
    (rises ? low : high) = rises ? a : b;
  }
  return std::exp((low + high) / 2);
}

const Estimate& cheapest(const std::vector<Estimate>& estimates) {
  return *std::ranges::min_element(estimates, {}, [](const Estimate& one) {
    // Without a known end the work of a core a sample says the same.
    return std::pair(one.cores / one.samples_per_second, -one.samples_per_second);
  });
}

const Estimate& fastest(const std::vector<Estimate>& estimates) {
  return *std::ranges::max_element(estimates, {}, &Estimate::samples_per_second);
}

}  // namespace coxswain::inspect
