#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "trainer/backend/algorithms.h"
#include "trainer/backend/executable.h"
#include "trainer/backend/parameters.h"
#include "trainer/graph/program.h"
#include "trainer/optim/lr_schedule.h"
#include "trainer/optim/update_rule.h"

namespace coxswain::backend {

// kNative: each tensor as the device's kernels want it. kCanonical: plain (K, C, R, S) and (out,
// in).
enum class LayoutKind { kCanonical, kNative };

// Runs programs on one device.
//
// layout() fixes where each parameter lies, once, from the training program. make_parameters()
// takes their memory on the device. prepare() does all the slow work: picks inner layouts, creates
// primitives, plans the arena. The executable refers to the backend and to `parameters`, which must
// outlive it. All executables of one backend share one arena: run one at a time. Throws Error when
// the device lacks memory or an operation, naming the step.
class Backend {
 public:
  virtual ~Backend() = default;

  // What layers may be computed with on this device; those alone of which there are several.
  virtual AlgorithmChoices algorithm_choices(const graph::Program& /*training*/) const {
    return {};
  }
  // The same with their times, where the device's own clock is to tell them. Nothing: where all
  // that was asked of it is done when a call returns, so that any clock does.
  virtual std::optional<AlgorithmTimes> time_algorithms(const graph::Program& /*training*/,
                                                        const KeepOn& /*keep_on*/) {
    return std::nullopt;
  }
  // Of these choices, from the next layout() and prepare() on; a layer that is not named takes the
  // first.
  virtual void use(const Algorithms& /*algorithms*/) {}

  // What a user should know of how this device computes the program; empty: nothing.
  virtual std::string remark(const graph::Program& /*training*/) const { return ""; }

  virtual tensor::ParameterLayout layout(const graph::Program& training, LayoutKind kind) = 0;
  virtual std::unique_ptr<Parameters> make_parameters(const tensor::ParameterLayout& layout,
                                                      int num_slots) = 0;
  virtual std::unique_ptr<Executable> prepare(const graph::Program& program,
                                              Parameters& parameters) = 0;

  // The only conversions between a segment's stored order and the canonical one, of copies on the
  // host. `stored` holds segment.stored floats, `canonical` segment.elements(). Padding is written
  // as zero. On any thread.
  virtual void to_canonical(const tensor::Segment& segment, std::span<const float> stored,
                            std::span<float> canonical) = 0;
  virtual void from_canonical(const tensor::Segment& segment, std::span<const float> canonical,
                              std::span<float> stored) = 0;

  // The scope of one step, from its first load to its update: what executables, communicators and
  // update() are asked in between is enqueued in that order. A host does everything at once. A
  // device may record it and, at the end_step() of a later step with the same rows in each of its
  // micro-batches, run the record as a whole: only what load(), Memory::write and multiply, and
  // update() were given is new then.
  virtual void begin_step(std::span<const std::int64_t> /*rows*/) {}
  virtual void end_step() {}

  // What a step's sums come to, once the gradients hold them: unless they or a loss are not finite,
  // counts an update and runs the optimizer over all segments (optim::update is its definition).
  // Judged and decided where the gradients lie; the control segment says what was done (control.h).
  // `statistic_parts`: see optim::UpdateStep.
  virtual void update(const optim::UpdateRule& rule, const optim::LearningRate& rate,
                      float statistic_parts, Parameters& parameters) = 0;

  // What decides this backend's bits: library and version, instruction set, threads.
  virtual std::string fingerprint() const = 0;
};

}  // namespace coxswain::backend
