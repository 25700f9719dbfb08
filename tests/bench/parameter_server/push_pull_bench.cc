// A push and a pull of so many megabytes by every worker, over loopback, each worker and server a
// process of its own:
//
//   push_pull_bench --workers=2 --servers=2 --megabytes=45 --repeats=20 --tls=on --compression=none
//
// Prints one line, {"milliseconds": [...]}: of each repeat, worker 0's time.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "trainer/contract/error.h"
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
  std::int64_t megabytes = 45;
  int repeats = 20;
  bool tls = true;
  Compression compression = Compression::kNone;
};

constexpr int kFirstPort = 28000;

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

void serve_forever(const Options& options, int index) {
  net::NetworkOptions network = network_of(options, "server", index);
  network.port = addresses(options)[static_cast<std::size_t>(index)].port;
  SyncTraining server({network.hello, addresses(options)},
                      {.reduction = comm::in_rank_order(options.workers),
                       .rule = {},
                       .num_slots = 0,
                       .codec = {.kind = options.compression}});
  const std::atomic<bool> stop = false;
  serve(network, server, {.startup_seconds = 60}, stop);
}

void work(const Options& options, int rank) {
  const auto layout = tensor::pack(
      {{.name = "w", .dims = {}, .offset = 0, .stored = options.megabytes * 1'000'000 / 4}});
  const Plan plan{layout, 0, ShardMap(layout, options.servers)};
  Floats weights(static_cast<std::size_t>(layout.size())), gradients(weights.size(), 0.001F);
  ClientThread servers(network_of(options, "worker", rank),
                       {.worker = rank, .servers = addresses(options), .startup_deadline = 60},
                       plan, {.weights = weights, .slots = {}}, {.kind = options.compression});
  servers.await_servers();
  if (rank == 0) servers.hand_over(0, 0);
  else std::this_thread::sleep_for(std::chrono::seconds(2));  // the other has, by then
  std::vector<double> milliseconds;
  for (int step = 0; step < options.repeats; ++step) {
    const auto start = Clock::now();
    servers.begin(step, rank == 0 ? std::optional(optim::UpdateStep{.lr = 0.1F}) : std::nullopt);
    for (const Piece& block : plan.map.cut(0, layout.size()))
      servers.push(block.offset, rank,
                   std::span(gradients).subspan(static_cast<std::size_t>(block.offset),
                                                static_cast<std::size_t>(block.length)));
    servers.finish_step();
    milliseconds.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  }
  if (options.workers > 1) milliseconds.erase(milliseconds.begin());  // it waited for the others
  if (rank == 0) fmt::print("{{\"milliseconds\": [{:.2f}]}}\n", fmt::join(milliseconds, ", "));
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
  options.megabytes = number("--megabytes", static_cast<int>(options.megabytes));
  options.repeats = number("--repeats", options.repeats);
  options.tls = given["--tls"] != "off";
  options.compression =
      value_of(words_of(Compression{}), given["--compression"]).value_or(Compression::kNone);
  return options;
}

int run(const Options& options) {
  std::vector<pid_t> servers, workers;
  for (int i = 0; i < options.servers; ++i)
    servers.push_back(in_child([&] { serve_forever(options, i); }));
  for (int i = 0; i < options.workers; ++i)
    workers.push_back(in_child([&] { work(options, i); }));
  int failed = 0;
  for (const pid_t worker : workers) {
    int status = 0;
    waitpid(worker, &status, 0);
    failed |= status;
  }
  for (const pid_t server : servers) {
    kill(server, SIGKILL);
    waitpid(server, nullptr, 0);
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace coxswain::ps

int main(int argc, char** argv) { return coxswain::ps::run(coxswain::ps::parse(argc, argv)); }
