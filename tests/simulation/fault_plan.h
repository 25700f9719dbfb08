#pragma once

#include <string>
#include <vector>

namespace coxswain::test {

enum class Fault {
  kNone,
  kCrash,      // of the operator, at a request
  kError,      // the answer to a request
  kZombie,     // stopped before a request; another operator takes over; then it goes on
  kStaleRead,  // a GET or list is answered by a server that is behind
  kDelay,      // a watch tells nothing for a while, then all of it
  kRelist,     // a watch breaks (410) and is listed anew a while later: what lay between is unseen
  kLose,       // a watch swallows one event; listed anew a while later
  kRepeat,     // a watch tells everything again from the beginning
  kHang,       // nobody answers a request for as long as its sender waits, while all else goes on
  kStep,       // the operator's clock is set, at a request
};

// Of a request: not sent, no reply, reply read. Of one that hangs: it has its effect never, at
// once, or after its sender has given it up.
enum class Point { kBefore, kApplied, kReplied };

// Value. What goes wrong in one run.
struct FaultPlan {
  Fault fault = Fault::kNone;
  int at = -1;  // of the run's requests, or of the revisions of `watched`
  Point point = Point::kBefore;
  int code = 0;              // of an error; 0: no answer
  int tries = 1;             // of the same request that get it
  std::string watched = {};  // pods, trainingjobs
  int seconds = 0;           // of silence, of a zombie's sleep, until a late effect, of a step
  bool fenced = true;        // the zombie knows on waking that its lease is over
  std::vector<FaultPlan> besides = {};
};

std::vector<FaultPlan> all_of(const FaultPlan& plan);  // it, and what goes wrong besides
std::string to_text(const FaultPlan& plan);

// Deliberate bugs of the protocol, made outside of it.
enum class Mutation {
  kNone,
  kNoUidOnDelete,
  kNoVersionOnStatus,
  kNoUidNorVersionOnStatus,
  kExistsIsSuccess,     // 409 on create is not looked into
  kJobNotReadAgain,     // after a refused status the cache is trusted
  kPodsNotListedAgain,  // though the status is newer than the pods seen
  kActsWithoutLease,
  kActsBeforePodsAreListed,
  kDeletionsUnheard,
  kRelistKeepsVanished,
  kNoTimeToSave,  // every delete is by force
  kNoOwner,       // of what is created
  kNoPreconditionsOnJob,
  kRefusalIsSuccess,  // 403 on create is taken for done
  kExpiryUnheard,     // a watch that is over goes on from now
  kTimersLost,        // a key that is to come again later does not
  kHangIsSuccess,     // a call that nobody answered is taken for done
};

}  // namespace coxswain::test
