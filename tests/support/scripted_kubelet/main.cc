// Plays the pods of a test cluster that has no nodes; see life.h for what they can be told.
#include <fmt/format.h>
#include <malloc.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <thread>

#include "operator/kube/http_transport.h"
#include "tests/support/scripted_kubelet/kubelet.h"
#include "trainer/contract/error.h"
#include "trainer/contract/worker/child_process.h"

namespace {

using namespace coxswain;

struct CommandLine {
  std::string kubeconfig;
  std::string life;
  int delay_ms = 0;
  scripted::KubeletOptions options;
};

CommandLine parse(CLI::App& app, int argc, char** argv) {
  CommandLine line;
  app.add_option("--kubeconfig", line.kubeconfig, "of one who may do what a node may")->required();
  app.add_option("--namespaces", line.options.namespaces, "all, if none is given")->delimiter(',');
  app.add_option("--selector", line.options.label_selector, "labels of the pods to play");
  app.add_option("--life", line.life, "rules for pods without the annotation coxswain.test/life");
  app.add_option("--delay-ms", line.delay_ms, "from bound to Ready, where a life says nothing")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("!--no-scheduling", line.options.schedules, "play pods once others bind them");
  app.add_option("--connections", line.options.writers, "writes at once")->check(CLI::Range(1, 64));
  app.parse(argc, argv);
  line.options.defaults.ready_after = std::chrono::milliseconds(line.delay_ms);
  if (!line.life.empty())
    line.options.rules = scripted::parse_rules(line.life, line.options.defaults);
  return line;
}

int run(const CommandLine& line) {
  contract::SignalQueue signals({SIGINT, SIGTERM});  // first: threads inherit what it blocks
  kube::limit_http_threads(2);
  kube::HttpTransport transport(kube::read_kubeconfig(line.kubeconfig, {}));
  kube::Client client(transport);
  scripted::Kubelet kubelet(client, line.options);
  std::atomic<int> code = 0;
  std::atomic<bool> ended = false;
  std::jthread thread([&](std::stop_token stop) {
    try {
      kubelet.run(stop);
    } catch (const Error& error) {
      fmt::print(stderr, "{}\n", error.what());
      code = static_cast<int>(error.code());
    }
    ended = true;
  });
  while (!ended && !signals.next())
    contract::wait_readable({signals.descriptor()}, std::chrono::milliseconds(200));
  thread.request_stop();
  thread.join();
  const scripted::Counts counts = kubelet.counts();
  fmt::print(R"({{"bindings":{},"statuses":{},"removals":{},"failures":{}}})"
             "\n",
             counts.bindings, counts.statuses, counts.removals, counts.failures);
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Schedules and plays pods as they are scripted");
  try {
    return run(parse(app, argc, argv));
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(ExitCode::kUsage);
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return static_cast<int>(error.code());
  }
}
