#pragma once

#include <optional>

#include "trainer/backend/control.h"
#include "trainer/ps/copy.h"

namespace coxswain::ps {

// The copy of a SyncServer; besides, what its last step came to.
class SyncCopy : public Copy {
 public:
  SyncCopy(const Plan& plan, int server, const optim::UpdateRule& rule, const Beginning& beginning)
      : Copy(plan, server, rule, beginning), holds_control_(server == plan.map.control_server()) {}

  Bytes also() const override { return encode(outcome_); }
  void set_also(std::span<const std::byte> bytes) override { outcome_ = decode(bytes); }
  void commit(const Message& message, const optim::UpdateStep& terms) override;

  using Outcome = std::optional<backend::ControlFloats>;
  static Bytes encode(const Outcome& outcome);
  static Outcome decode(std::span<const std::byte> bytes);

 private:
  const bool holds_control_;
  Outcome outcome_;  // see SyncServer
};

}  // namespace coxswain::ps
