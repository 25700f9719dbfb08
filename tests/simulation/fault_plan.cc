#include "tests/simulation/fault_plan.h"

#include <fmt/format.h>

namespace coxswain::test {

std::vector<FaultPlan> all_of(const FaultPlan& plan) {
  std::vector<FaultPlan> all = plan.besides;
  all.insert(all.begin(), plan);
  return all;
}

namespace {

std::string text_of_one(const FaultPlan& plan) {
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
    case Fault::kHang:
      return fmt::format("request {} hangs, {} tries, and has its effect {}", plan.at, plan.tries,
                         plan.point == Point::kBefore    ? "never"
                         : plan.point == Point::kApplied ? "at once"
                                                         : fmt::format("{} s late", plan.seconds));
    case Fault::kStep:
      return fmt::format("the clock steps by {} s at request {}", plan.seconds, plan.at);
  }
  return "";
}

}  // namespace

std::string to_text(const FaultPlan& plan) {
  std::string text;
  for (const FaultPlan& one : all_of(plan))
    text += (text.empty() ? "" : ", and ") + text_of_one(one);
  return text;
}

}  // namespace coxswain::test
