#include "trainer/launch/error_filter.h"

#include <algorithm>
#include <array>
#include <utility>

namespace coxswain::launch {

namespace {

constexpr std::size_t kFrameLength = 74;  // of a line of dashes around a message (show_help)
constexpr std::size_t kMaxComplaintBytes = 500;

// How Open MPI 4 and 5 begin to say that a rank failed.
constexpr std::array<std::string_view, 5> kReportsOfAFailedRank = {
    "Primary job  terminated normally, but",
    "mpirun detected that one or more processes exited",
    "prterun detected that one or more processes exited",
    "mpirun noticed that process rank",
    "prterun noticed that process rank",
};

// The line can still turn out to be a frame.
bool may_be_frame(std::string_view line) {
  return line.size() <= kFrameLength && line.find_first_not_of('-') == std::string_view::npos;
}

bool is_frame(std::string_view line) { return line == std::string(kFrameLength, '-') + "\n"; }

bool reports_failed_rank(std::string_view line) {
  return std::ranges::any_of(kReportsOfAFailedRank,
                             [&](std::string_view start) { return line.starts_with(start); });
}

}  // namespace

std::string ErrorFilter::take(std::string_view bytes, bool ranks_started) {
  std::string shown;
  for (const char byte : bytes) {
    line_ += byte;
    if (byte == '\n') {
      shown += passing_ ? std::exchange(line_, "") : end_of_line(ranks_started);
      passing_ = false;
    } else if (passing_ || (state_ == State::kOutside && !may_be_frame(line_))) {
      passing_ = true;
      shown += std::exchange(line_, "");
    }
  }
  return shown;
}

std::string ErrorFilter::end_of_line(bool ranks_started) {
  const std::string line = std::exchange(line_, "");
  const bool frame = is_frame(line);
  switch (state_) {
    case State::kOutside:
      if (!frame) return line;
      opening_ = line;
      state_ = State::kOpened;
      return "";
    case State::kOpened:
      if (frame) return std::exchange(opening_, line);  // the end of one, the start of another
      if (reports_failed_rank(line)) {
        state_ = State::kDropping;
      } else if (!ranks_started) {
        state_ = State::kComplaining;
        complaint_ = line.substr(0, line.size() - 1);
        complete_ = false;
      } else {
        state_ = State::kOutside;
        return std::exchange(opening_, "") + line;
      }
      opening_.clear();
      return "";
    case State::kDropping:
      if (frame) state_ = State::kOutside;
      return "";
    case State::kComplaining:
      if (frame) state_ = State::kOutside;
      complete_ = complete_ || line == "\n";
      if (!frame && !complete_ && complaint_.size() < kMaxComplaintBytes) {
        complaint_ += " " + line.substr(0, line.size() - 1);
      }
      return "";
  }
  return line;
}

std::string ErrorFilter::finish() {
  std::string rest = std::exchange(opening_, "");
  if (state_ == State::kOutside || state_ == State::kOpened) rest += std::exchange(line_, "");
  return rest;
}

}  // namespace coxswain::launch
