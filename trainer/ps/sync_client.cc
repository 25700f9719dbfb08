#include "trainer/ps/sync_client.h"

#include <algorithm>
#include <utility>

namespace coxswain::ps {

SyncClient::SyncClient(ClientOptions options, Plan plan, WorkerArrays arrays)
    : Client(std::move(options)),
      plan_(std::move(plan)),
      arrays_(std::move(arrays)),
      dealings_(static_cast<std::size_t>(num_servers())) {}

std::int64_t SyncClient::missing() const {
  std::int64_t missing = 0;
  for (const Dealings& with : dealings_) missing += with.missing;
  return missing;
}

std::int64_t SyncClient::floats_wanted(int server) const {
  const std::int64_t load = plan_.map.load(server);
  switch (wanted_) {
    case Wanted::kNothing:
      return 0;
    case Wanted::kBegun:
      return 1;  // a word
    case Wanted::kWeights:
      return load + (server == plan_.map.control_server() ? tensor::kControlFloats : 0);
    case Wanted::kSlots:
      return load * plan_.num_slots;
  }
  return 0;
}

void SyncClient::want(Wanted wanted) {
  wanted_ = wanted;
  for (int server = 0; server < num_servers(); ++server)
    of(server) = {.missing = floats_wanted(server), .pushed = {}};
}

void SyncClient::hand_over(std::int64_t step, std::int64_t update_count) {
  step_ = step;
  beginning_ = encode(Beginning{plan_.layout, step, update_count});
  want(Wanted::kBegun);
  for (int server = 0; server < num_servers(); ++server) ask(server);
}

void SyncClient::begin(std::int64_t step, const std::optional<optim::UpdateStep>& terms) {
  step_ = step;
  terms_.reset();
  if (terms) terms_ = encode(*terms);
  want(Wanted::kWeights);
  for (int server = 0; server < num_servers(); ++server) say_terms(server);
}

void SyncClient::ask_slots() {
  want(Wanted::kSlots);
  for (int server = 0; server < num_servers(); ++server) ask(server);
}

void SyncClient::push(const BlockPart& part) {
  const int server = plan_.map.cut(part.offset, 1)[0].server;
  of(server).pushed.push_back(part);
  say_push(server, part);
}

// Over a new connection, too: the server knows what it has.
void SyncClient::ask(int server) {
  Dealings& with = of(server);
  if (with.missing == 0) return;
  with.missing = floats_wanted(server);
  switch (wanted_) {
    case Wanted::kNothing:
      return;
    case Wanted::kBegun:
      return say_state(server, plan_, arrays_, step_, beginning_);
    case Wanted::kWeights:
      say(server, {.what = Say::kAgain, .step = step_});
      say_terms(server);
      for (const BlockPart& part : with.pushed) say_push(server, part);
      return;
    case Wanted::kSlots:
      return say(server, {.what = Say::kAskSlots, .step = step_});
  }
}

void SyncClient::say_terms(int server) {
  if (terms_) say(server, {.what = Say::kTerms, .step = step_}, std::as_bytes(std::span(*terms_)));
}

void SyncClient::say_push(int server, const BlockPart& part) {
  say(server, {.what = Say::kPush, .step = step_, .part = part.part, .offset = part.offset},
      part.bytes);
}

std::optional<std::span<std::byte>> SyncClient::place_of(int server, const Message& message) {
  if (of(server).missing == 0 || message.step != step_ || message.bytes == 0) return std::nullopt;
  if (!is_wanted(message)) return std::nullopt;
  if (message.what == Say::kWeights) return piece_of(plan_, arrays_.weights, server, message);
  if (message.what == Say::kOutcome && message.bytes == sizeof outcome_)
    return std::as_writable_bytes(std::span(outcome_));
  if (message.what == Say::kSlots && message.part < plan_.num_slots)
    return piece_of(plan_, arrays_.slots[static_cast<std::size_t>(message.part)], server, message);
  refuse(server, message);
}

// A server that was asked again may say twice what a step came to.
bool SyncClient::is_wanted(const Message& message) const {
  switch (message.what) {
    case Say::kBegun:
      return wanted_ == Wanted::kBegun;
    case Say::kWeights:
    case Say::kOutcome:
      return wanted_ == Wanted::kWeights;
    case Say::kSlots:
      return wanted_ == Wanted::kSlots;
    default:
      return false;
  }
}

void SyncClient::take(int server, const Message& message) {
  if (message.step != step_ || !is_wanted(message)) return;
  std::int64_t& missing = of(server).missing;
  if (message.what == Say::kBegun) missing = 0;
  missing = std::max<std::int64_t>(0, missing - floats_of(message));
}

}  // namespace coxswain::ps
