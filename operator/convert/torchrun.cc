#include <array>

#include "operator/convert/launchers.h"

// The options of torchrun and of torch.distributed.launch; dashes and underscores are one.
// https://pytorch.org/docs/stable/elastic/run.html
namespace coxswain::convert {

namespace {

// N, or MIN:MAX.
void nodes(Draft& draft, const std::vector<std::string>& values) {
  const std::string& text = values.front();
  const std::size_t colon = text.find(':');
  draft.put("launch.workers", text.substr(0, colon));
  if (colon == std::string::npos) return;
  draft.put("launch.least", text.substr(0, colon));
  draft.put("launch.most", text.substr(colon + 1));
}

void processes(Draft& draft, const std::vector<std::string>& values) {
  const std::string& text = values.front();
  if (text != "gpu" && text != "auto" && text != "cpu") {
    draft.put("launch.slots", text);
    return;
  }
  draft.put("slotsPerWorker", "auto");
  draft.note(Outcome::kMind, text,
             "slotsPerWorker: auto is the GPU limit of the container, else 1; write a number for "
             "CPUs");
}

constexpr const char* kMeets = "MASTER_ADDR, MASTER_PORT and PET_* are set in every pod";
using enum Outcome;

constexpr auto kTorchrunOptions = std::to_array<Option>({
    {.names = "--nnodes", .answer = "replicaSpecs.Worker.replicas: {}", .take = nodes},
    {.names = "--nproc-per-node", .answer = "slotsPerWorker: {}", .take = processes},
    {.names = "--max-restarts", .key = "runPolicy.backoffLimit"},
    {.names = "--node-rank", .outcome = kNotNeeded, .answer = "the pod's number: PET_NODE_RANK"},
    {.names = "--master-addr --master-port --rdzv-backend --rdzv-endpoint --rdzv-id --rdzv-conf "
              "--local-addr",
     .outcome = kNotNeeded,
     .answer = kMeets},
    {.names = "--standalone --use-env --use-libuv",
     .values = 0,
     .outcome = kNotNeeded,
     .answer = kMeets},
    {.names = "--monitor-interval --log-dir -r --redirects -t --tee --role --start-method "
              "--local-ranks-filter --logs-specs",
     .outcome = kNotNeeded,
     .answer = "the container's log holds all its ranks"},
    {.names = "-m --module",
     .values = 0,
     .answer = "kept in the container's command",
     .take = [](Draft& draft,
                const std::vector<std::string>&) { draft.add_to("launch.kept", "-m"); }},
    {.names = "--no-python",
     .values = 0,
     .answer = "kept in the container's command",
     .take = [](Draft& draft,
                const std::vector<std::string>&) { draft.add_to("launch.kept", "--no-python"); }},
    {.names = "--run-path",
     .values = 0,
     .answer = "kept in the container's command",
     .take = [](Draft& draft,
                const std::vector<std::string>&) { draft.add_to("launch.kept", "--run-path"); }},
});

}  // namespace

const Dialect& torchrun() {
  static constexpr Dialect dialect{"torchrun", Starter::kTorch, OptionStyle::kArgparse,
                                   kTorchrunOptions};
  return dialect;
}

}  // namespace coxswain::convert
