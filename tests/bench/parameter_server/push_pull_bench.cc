// A push and a pull of so many megabytes by every worker, over loopback, each worker and server a
// process of its own:
//
//   push_pull_bench --workers=2 --servers=2 --megabytes=45 --repeats=20 --tls=on --mode=sync
//     --compression=none
//
// Prints one line, {"milliseconds": [...], "steps": [...], "serverMiB": [...]}: of each repeat,
// worker 0's time; how many each worker made since all had made one, until worker 0 had ended; the
// most memory of each server.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "trainer/contract/error.h"
#include "trainer/ps/async_client_thread.h"
#include "trainer/ps/async_training.h"
#include "trainer/ps/client_thread.h"
#include "trainer/ps/serve.h"
#include "trainer/ps/sync_training.h"

namespace coxswain::ps {
namespace {

using Clock = std::chrono::steady_clock;
using Floats = std::vector<float>;

struct Options {
  int workers = 1;
  int servers = 1;
  double megabytes = 45;
  int repeats = 20;
  bool tls = true;
  bool async = false;
  Compression compression = Compression::kNone;
};

// Of all processes.
struct Shared {
  std::atomic<int> begun = 0;         // workers that have made one
  std::atomic<bool> is_over = false;  // worker 0 has made its repeats
  std::atomic<std::int64_t> steps[256] = {};
};

constexpr int kFirstPort = 28000;
constexpr int kSlots = 1;  // of SGD with momentum

net::NetworkOptions network_of(const Options& options, const char* role, int rank) {
  net::NetworkOptions network;
  network.hello.job = "bench";
  network.hello.role = role;
  network.hello.rank = rank;
  network.hello.world_size = options.workers;
  network.secret = std::string(32, 'k');
  network.encrypt = options.tls;
  return network;
}

std::vector<net::Address> addresses(const Options& options) {
  std::vector<net::Address> all;
  const int first = kFirstPort + static_cast<int>(getppid() % 100) * 16;
  for (int i = 0; i < options.servers; ++i) all.push_back({"127.0.0.1", first + i});
  return all;
}

// In a child process, which ends with it.
pid_t in_child(const std::function<void()>& work) {
  const pid_t child = fork();
  if (child != 0) return child;
  try {
    work();
  } catch (const std::exception& error) {
    fmt::print(stderr, "push_pull_bench: {}\n", error.what());
    _exit(1);
  }
  std::fflush(nullptr);
  _exit(0);
}

std::unique_ptr<Server> make_server(const Options& options, ServerOptions server) {
  if (options.async)
    return std::make_unique<AsyncTraining>(std::move(server),
                                           AsyncOptions{.rule = {},
                                                        .num_slots = kSlots,
                                                        .codec = {.kind = options.compression},
                                                        .staleness = std::nullopt});
  return std::make_unique<SyncTraining>(
      std::move(server), SyncOptions{.reduction = comm::in_rank_order(options.workers),
                                     .rule = {},
                                     .num_slots = kSlots,
                                     .codec = {.kind = options.compression}});
}

void serve_forever(const Options& options, int index) {
  net::NetworkOptions network = network_of(options, "server", index);
  network.port = addresses(options)[static_cast<std::size_t>(index)].port;
  const auto server = make_server(options, {network.hello, addresses(options)});
  const std::atomic<bool> stop = false;
  serve(network, *server, {.startup_seconds = 60}, stop);
}

constexpr optim::UpdateStep kTerms{.lr = 0.01F, .momentum = 0.9F};
constexpr std::chrono::seconds kOthersBegin{2};  // worker 0 has handed over by then

// A worker, whichever the mode: one push and pull of `gradients` a call.
class Pusher {
 public:
  Pusher(const Options& options, int rank, const Plan& plan, Floats& weights, Floats& slot)
      : options_(options), rank_(rank), plan_(plan) {
    const net::NetworkOptions network = network_of(options, "worker", rank);
    const ClientOptions client{
        .worker = rank, .servers = addresses(options), .startup_deadline = 60};
    const WorkerArrays arrays{.weights = weights, .slots = {slot}};
    if (options.async) {
      async_ = std::make_unique<AsyncClientThread>(network, client, nullptr);
      async_->attach(plan, arrays, {.kind = options.compression});
      if (rank == 0) async_->hand_over(0, 0);
    } else {
      sync_ = std::make_unique<ClientThread>(network, client, plan, arrays,
                                             compress::Codec{.kind = options.compression});
      sync_->await_servers();
      if (rank == 0) sync_->hand_over(0, 0);
    }
    if (rank > 0) std::this_thread::sleep_for(kOthersBegin);
  }

  void push_and_pull(std::int64_t repeat, Floats& gradients) {
    if (async_) {
      async_->begin(repeat * options_.workers + rank_);
    } else {
      sync_->begin(repeat, rank_ == 0 ? std::optional(kTerms) : std::nullopt);
    }
    for (const Piece& block : plan_.map.cut(0, plan_.layout.size())) {
      const auto floats = std::span(gradients).subspan(static_cast<std::size_t>(block.offset),
                                                       static_cast<std::size_t>(block.length));
      if (async_) {
        async_->push(block.offset, floats);
      } else {
        sync_->push(block.offset, rank_, floats);
      }
    }
    if (async_) {
      async_->finish_push(kTerms);
    } else {
      sync_->finish_step();
    }
  }

 private:
  const Options& options_;
  const int rank_;
  const Plan& plan_;
  std::unique_ptr<ClientThread> sync_;
  std::unique_ptr<AsyncClientThread> async_;
};

void work(const Options& options, int rank, Shared& shared) {
  const auto floats = static_cast<std::int64_t>(options.megabytes * 1e6 / 4);
  const auto layout = tensor::pack(
      {{.name = "w", .dims = {}, .offset = 0, .stored = std::max<std::int64_t>(1, floats)}});
  const Plan plan{layout, kSlots, ShardMap(layout, options.servers)};
  Floats weights(static_cast<std::size_t>(layout.size())), slot(weights.size()),
      gradients(weights.size(), 0.001F);
  Pusher pusher(options, rank, plan, weights, slot);
  std::vector<double> milliseconds;
  // Worker 0's first ones: the others are not there yet.
  const int alone = options.workers > 1 ? 1 : 0;
  const auto goes_on = [&](int step) {
    if (rank == 0) return step < options.repeats + alone;
    return options.async ? !shared.is_over : step < options.repeats + alone;
  };
  if (rank == 0 && options.async && options.workers > 1) std::this_thread::sleep_for(kOthersBegin);
  for (int step = 0; goes_on(step); ++step) {
    const auto start = Clock::now();
    pusher.push_and_pull(step, gradients);
    milliseconds.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
    if (step == 0) ++shared.begun;
    if (shared.begun == options.workers && !shared.is_over) ++shared.steps[rank];
  }
  if (rank != 0) return;
  shared.is_over = true;
  milliseconds.erase(milliseconds.begin(), milliseconds.begin() + alone);
  fmt::print("{{\"milliseconds\": [{:.3f}]", fmt::join(milliseconds, ", "));
}

// Its most memory so far.
double mebibytes_of(pid_t process) {
  std::ifstream status(fmt::format("/proc/{}/status", process));
  for (std::string word; status >> word;) {
    double kibibytes = 0;
    if (word == "VmHWM:" && status >> kibibytes) return kibibytes / 1024;
  }
  return 0;
}

Options parse(int argc, char** argv) {
  std::map<std::string, std::string> given;
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    const auto equals = text.find('=');
    given[text.substr(0, equals)] = equals == std::string::npos ? "" : text.substr(equals + 1);
  }
  const auto number = [&](const char* name, int fallback) {
    return given.contains(name) ? std::atoi(given[name].c_str()) : fallback;
  };
  Options options;
  options.workers = number("--workers", options.workers);
  options.servers = number("--servers", options.servers);
  if (given.contains("--megabytes")) options.megabytes = std::atof(given["--megabytes"].c_str());
  options.repeats = number("--repeats", options.repeats);
  options.tls = given["--tls"] != "off";
  options.async = given["--mode"] == "async";
  options.compression =
      value_of(words_of(Compression{}), given["--compression"]).value_or(Compression::kNone);
  return options;
}

int run(const Options& options) {
  void* memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  Shared& shared = *new (memory) Shared;
  std::vector<pid_t> servers, workers;
  for (int i = 0; i < options.servers; ++i)
    servers.push_back(in_child([&] { serve_forever(options, i); }));
  for (int i = 0; i < options.workers; ++i)
    workers.push_back(in_child([&] { work(options, i, shared); }));
  int failed = 0;
  for (const pid_t worker : workers) {
    int status = 0;
    waitpid(worker, &status, 0);
    failed |= status;
  }
  std::vector<double> mebibytes;
  for (const pid_t server : servers) {
    mebibytes.push_back(mebibytes_of(server));
    kill(server, SIGKILL);
    waitpid(server, nullptr, 0);
  }
  fmt::print(", \"steps\": [{}], \"serverMiB\": [{:.1f}]}}\n",
             fmt::join(std::span(shared.steps, static_cast<std::size_t>(options.workers)), ", "),
             fmt::join(mebibytes, ", "));
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace coxswain::ps

int main(int argc, char** argv) { return coxswain::ps::run(coxswain::ps::parse(argc, argv)); }
