#include "trainer/net/hello.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/contract/error.h"
#include "trainer/contract/printable.h"
#include "trainer/contract/worker/json_fields.h"
#include "trainer/net/frame.h"

namespace coxswain::net {

namespace {

constexpr std::size_t kProofBytes = 32;
constexpr std::size_t kMostCharacters = 200;  // of a text from outside, in a message

std::string shown(const std::string& text) { return printable(text, kMostCharacters); }

bool in_range(const Hello& hello) {
  return hello.oldest_protocol >= 1 && hello.newest_protocol >= hello.oldest_protocol &&
         hello.attempt >= 0 && hello.incarnation >= 0 && hello.rank >= 0 && hello.world_size >= 1;
}

}  // namespace

std::string to_json(const Hello& hello) {
  return contract::dump({{"oldestProtocol", hello.oldest_protocol},
                         {"newestProtocol", hello.newest_protocol},
                         {"job", hello.job},
                         {"attempt", hello.attempt},
                         {"incarnation", hello.incarnation},
                         {"role", hello.role},
                         {"rank", hello.rank},
                         {"worldSize", hello.world_size},
                         {"fingerprint", hello.fingerprint}});
}

std::optional<Hello> hello_of(std::string_view json) {
  const auto object = contract::parse_object(json, kMaxGreeting);
  if (!object) return std::nullopt;
  contract::JsonFields fields(*object);
  Hello hello;
  hello.oldest_protocol = hello.newest_protocol = 0;  // both must be said
  fields.read("oldestProtocol", hello.oldest_protocol);
  fields.read("newestProtocol", hello.newest_protocol);
  fields.read("job", hello.job);
  fields.read("attempt", hello.attempt);
  fields.read("incarnation", hello.incarnation);
  fields.read("role", hello.role);
  fields.read("rank", hello.rank);
  fields.read("worldSize", hello.world_size);
  fields.read("fingerprint", hello.fingerprint);
  if (!fields.ok() || !in_range(hello)) return std::nullopt;
  return hello;
}

std::string name_of(const Hello& hello) {
  return fmt::format("{} {} of attempt {}", shown(hello.role), hello.rank, hello.attempt);
}

std::string to_json(const Refusal& refusal) {
  return contract::dump({{"why", printable(refusal.why, kMaxGreeting / 8)},
                         {"code", static_cast<int>(refusal.code)}});
}

std::optional<Refusal> refusal_of(std::string_view json) {
  const auto object = contract::parse_object(json, kMaxGreeting);
  if (!object) return std::nullopt;
  contract::JsonFields fields(*object);
  Refusal refusal;
  int code = 0;
  fields.read("why", refusal.why);
  fields.read("code", code);
  if (!fields.ok()) return std::nullopt;
  refusal.why = printable(refusal.why, kMaxGreeting / 8);
  for (const ExitCode known : {ExitCode::kBadInput, ExitCode::kPeersMissing, ExitCode::kPeerLost})
    if (static_cast<int>(known) == code) refusal.code = known;
  return refusal;
}

std::optional<Refusal> judge(const Hello& mine, const Hello& theirs) {
  const auto refused = [&](const std::string& why, ExitCode code = ExitCode::kBadInput) {
    return Refusal{fmt::format("{} refuses {}: {}", name_of(mine), name_of(theirs), why), code};
  };
  const auto differ = [&](const char* what, const auto& my, const auto& their) {
    return refused(fmt::format("{} differs, {} here and {} there", what, my, their));
  };
  if (mine.job != theirs.job) return differ("the job", shown(mine.job), shown(theirs.job));
  if (theirs.attempt < mine.attempt)
    return refused("a newer attempt has taken its place", ExitCode::kPeerLost);
  if (theirs.attempt > mine.attempt)
    return refused("it is about to be replaced itself", ExitCode::kPeersMissing);
  if (std::max(mine.oldest_protocol, theirs.oldest_protocol) > common_protocol(mine, theirs))
    return refused(fmt::format("it speaks versions {} to {} of the protocol, not {} to {}",
                               theirs.oldest_protocol, theirs.newest_protocol, mine.oldest_protocol,
                               mine.newest_protocol));
  if (mine.world_size != theirs.world_size)
    return differ("the number of ranks", mine.world_size, theirs.world_size);
  if (mine.fingerprint != theirs.fingerprint)
    return differ("the fingerprint of the training", shown(mine.fingerprint),
                  shown(theirs.fingerprint));
  return std::nullopt;
}

int common_protocol(const Hello& mine, const Hello& theirs) {
  return std::min(mine.newest_protocol, theirs.newest_protocol);
}

std::string secret_of_hex(const std::string& text, const std::string& where) {
  const auto refuse = [&]() -> std::string {
    throw Error(ExitCode::kBadInput,
                "[net] " + where + " holds no key: 64 hex digits are expected");
  };
  const std::size_t length = text.ends_with('\n') ? text.size() - 1 : text.size();
  if (length != 2 * kProofBytes) return refuse();
  std::string secret;
  for (std::size_t i = 0; i < length; i += 2) {
    int byte = 0;
    for (const char digit : {text[i], text[i + 1]}) {
      const auto value = std::string_view("0123456789abcdef").find(digit);
      if (value == std::string_view::npos) return refuse();
      byte = 16 * byte + static_cast<int>(value);
    }
    secret.push_back(static_cast<char>(byte));
  }
  return secret;
}

}  // namespace coxswain::net
