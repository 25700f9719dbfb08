#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// What a worker and the host on which its ranks run tell each other through ssh's pipes. PURE.
namespace coxswain::launch {

// To the host: kOrder first, then kBeat, kSave and kAsk. From it: the others.
enum class FrameKind : char {
  kOrder = 'h',   // the worker, to_json(HostOrder)
  kBeat = 'b',    // whoever sent it is there
  kSave = 's',    // save and stop
  kAsk = 'q',     // a path of its first rank's endpoint; `rank` is the question's number
  kAnswer = 'a',  // to that number; an empty body: it does not answer
  kReady = 'r',   // all ranks have begun
  kOutput = 'o',  // what a rank printed
  kErrors = 'e',  // the same, on its error output
  kEnd = 'z',     // the worker's termination message; the last one
};

struct Frame {
  FrameKind kind = FrameKind::kBeat;
  int rank = 0;  // of kOutput and kErrors; of kAsk and kAnswer a number
  std::string body;
  bool operator==(const Frame&) const = default;
};

inline constexpr std::size_t kMostFrameBody = 4 << 20;

// The host's first bytes. What a login shell prints before them is no concern of ours.
inline constexpr std::string_view kHostGreeting = "coxswain-host 1\n";

// Kind, rank and length of the body (four bytes each, the highest first), body.
std::string to_bytes(const Frame& frame);

// Value. Cuts what comes into frames.
class FrameReader {
 public:
  // `greeted`: nothing counts before the greeting.
  explicit FrameReader(bool greeted) : awaits_greeting_(greeted) {}

  void add(std::string_view bytes) { bytes_ += bytes; }
  // Nothing: the next one has not come whole. Throws Error(70) for what can be no frame, or no
  // greeting within 64 KiB.
  std::optional<Frame> next();

 private:
  bool find_greeting();

  bool awaits_greeting_;
  std::string bytes_;
};

// Value. A worker for a host to start. Words and variables that name `config` mean its text.
struct HostOrder {
  std::map<std::string, std::string> environment;
  std::vector<std::string> command;  // of each rank
  std::string config;                // texts of the files, as the variables name them
  std::string hostfile;
  std::string key;
  // Of the worker that writes checkpoints: the host on which it did so before. Empty: on none.
  std::string wrote_on;
  bool operator==(const HostOrder&) const = default;
};

std::string to_json(const HostOrder& order);
std::optional<HostOrder> parse_host_order(std::string_view json);  // never throws

}  // namespace coxswain::launch
