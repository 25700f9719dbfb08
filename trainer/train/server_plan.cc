#include "trainer/train/server_plan.h"

#include <fmt/format.h>

#include "trainer/contract/error.h"
#include "trainer/tensor/host_span.h"

namespace coxswain::train {

ps::Plan plan_for(const backend::Parameters& parameters, int servers) {
  ps::Plan plan{parameters.layout(), parameters.num_slots(),
                ps::ShardMap(parameters.layout(), servers)};
  if (plan.map.load(servers - 1) == 0)
    throw Error(ExitCode::kBadInput,
                fmt::format("[train] {} servers are too many for {} parameters: lower "
                            "replicaSpecs.Server.replicas",
                            servers, parameters.layout().parameter_count()));
  return plan;
}

std::vector<Range> blocks_of(const ps::Plan& plan) {
  std::vector<Range> blocks;
  for (const ps::Piece& piece : plan.map.cut(0, plan.layout.size()))
    blocks.push_back({piece.offset, piece.length});
  return blocks;
}

ps::WorkerArrays arrays_of(const backend::Parameters& parameters) {
  ps::WorkerArrays arrays{.weights = host_span(parameters.weights()), .slots = {}};
  for (int slot = 0; slot < parameters.num_slots(); ++slot)
    arrays.slots.push_back(host_span(parameters.slot(slot)));
  return arrays;
}

}  // namespace coxswain::train
