#include "trainer/ps/serve.h"

#include <fmt/format.h>

#include <chrono>

#include "trainer/contract/error.h"

namespace coxswain::ps {

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::seconds;

constexpr Seconds kServeTick{1};
constexpr std::chrono::milliseconds kLook{100};  // for `stop`
constexpr int kFirstWord = 5;                    // ticks
constexpr int kNextWord = 30;

// Counts the seconds in which training waits for workers that are not there.
class Patience {
 public:
  explicit Patience(const ServeOptions& options) : options_(options) {}

  void tick(const Server& server) {
    const bool waits = !server.has_begun() || server.is_stuck();
    ticks_ = waits ? ticks_ + 1 : 0;
    const std::string missing = waits ? server.missing_workers() : "";
    if (ticks_ > options_.startup_seconds)
      throw Error(server.has_begun() ? ExitCode::kPeerLost : ExitCode::kPeersMissing,
                  missing.empty()
                      ? fmt::format("[ps] worker 0 has not begun after {} s", ticks_ - 1)
                      : fmt::format("[ps] after {} s missing: {}", ticks_ - 1, missing));
    const bool speaks = ticks_ == kFirstWord || (ticks_ > 0 && ticks_ % kNextWord == 0);
    if (speaks && !missing.empty() && options_.on_waiting) options_.on_waiting(missing);
  }

 private:
  const ServeOptions& options_;
  int ticks_ = 0;
};

}  // namespace

void serve(const net::NetworkOptions& network_options, Server& server, const ServeOptions& options,
           const std::atomic<bool>& stop) {
  net::Network network(network_options, server);
  server.use(network);
  Patience patience(options);
  for (auto next_tick = Clock::now() + kServeTick; !stop;) {
    network.wait(std::min<Clock::duration>(kLook, next_tick - Clock::now()));
    while (network.poll() && Clock::now() < next_tick && !stop) continue;
    if (options.on_turn) options.on_turn(server);
    if (server.refused()) throw Error(server.refused()->code, "[ps] " + server.refused()->why);
    if (Clock::now() < next_tick) continue;
    next_tick = Clock::now() + kServeTick;
    server.tick();
    patience.tick(server);
  }
}

}  // namespace coxswain::ps
