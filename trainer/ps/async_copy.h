#pragma once

#include "trainer/ps/copy.h"

namespace coxswain::ps {

// The copy of an AsyncServer; besides, which steps it has made, and of server 0 the Minutes.
class AsyncCopy : public Copy {
 public:
  using Copy::Copy;

  Bytes also() const override;
  void set_also(std::span<const std::byte> bytes) override;
  // Throws Error(71) for a step that was made.
  void commit(const Message& message, const optim::UpdateStep& terms) override;
  void set_minutes(std::span<const std::byte> minutes);

 private:
  StepSet done_;
  Bytes minutes_;
};

}  // namespace coxswain::ps
