#pragma once

#include <stdexcept>
#include <string>

#include "trainer/contract/exit_code.h"

namespace coxswain {

// A broken world: file, network, device, configuration. The one exception of both programs.
//
// The message is one line, "[area] what, where, what to do". It is caught in main, in the
// controller and per connection, and nowhere else. `code` is what the process exits with.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

}  // namespace coxswain
