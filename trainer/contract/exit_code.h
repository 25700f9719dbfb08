#pragma once

namespace coxswain {

// How `coxswain-trainer` ends. The operator reads these numbers (docs/contract.md, "Exit codes");
// they never change.
enum class ExitCode {
  kDone = 0,
  kUsage = 2,          // bad flags
  kBadInput = 65,      // bad data, configuration or checkpoint
  kPeersMissing = 69,  // peers did not come in time
  kInternal = 70,
  kPeerLost = 71,   // a peer died or fell silent
  kDevice = 72,     // the machine's device is at fault: another machine may do
  kVolume = 74,     // volume full, unwritable or gone
  kSaved = 75,      // saved and left on SIGTERM
  kNotFinite = 76,  // loss not finite beyond the guard
};

}  // namespace coxswain
