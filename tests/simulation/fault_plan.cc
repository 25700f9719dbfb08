#include "tests/simulation/fault_plan.h"

#include <fmt/format.h>

namespace coxswain::test {

std::string to_text(const FaultPlan& plan) {
  const char* point = plan.point == Point::kBefore    ? "before it is sent"
                      : plan.point == Point::kApplied ? "after it is applied, reply lost"
                                                      : "after its reply is read";
  const std::string watch =
      fmt::format("the watch of {} from its revision {}", plan.watched, plan.at);
  switch (plan.fault) {
    case Fault::kNone:
      return "undisturbed";
    case Fault::kCrash:
      return fmt::format("crash at request {}, {}", plan.at, point);
    case Fault::kError:
      return fmt::format("request {} is answered {} ({}), {} tries", plan.at, plan.code, point,
                         plan.tries);
    case Fault::kZombie:
      return fmt::format("zombie ({}) before request {}, wakes after {} s",
                         plan.fenced ? "fenced" : "unfenced", plan.at, plan.seconds);
    case Fault::kStaleRead:
      return fmt::format("request {} reads what was {} revisions ago", plan.at, plan.seconds);
    case Fault::kDelay:
      return fmt::format("{} is silent for {} s", watch, plan.seconds);
    case Fault::kRelist:
      return fmt::format("{} is gone, listed anew after {} s", watch, plan.seconds);
    case Fault::kLose:
      return fmt::format("{} loses one event, listed anew after {} s", watch, plan.seconds);
    case Fault::kRepeat:
      return fmt::format("{} tells everything again", watch);
  }
  return "";
}

}  // namespace coxswain::test
