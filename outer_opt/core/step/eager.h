// Eager updates (sync.eager; Kale, Douillard, Donchev 2025, "Eager Updates For Overlapped
// Communication and Computation in DiLoCo"): how a replica begins the inner steps that it takes
// while the average of a round still travels. It takes the outer step at once, with an estimate:
// the last average of the same fragment, in which its own part is replaced by what it has now. D is
// its pseudo-gradient, D' the one before, A' the average that D' went into, w the share of D' in it
// (weight and clip factor; 1/N with N equal members):
//
//   estimate = A' + w (D - D')
//   start    = the anchor after an outer step with the estimate
//   local   <- start                            at the boundary
//   local   <- local + (anchor - start)         where the result is adopted: with the new anchor
//   local   <- local + (anchor - D - start)     after an abort: the anchor is what it was
//
// Anchor and state vectors, which all replicas share bit for bit, never see an estimate: they take
// the true average at the commit. Local parameters are corrected by what the estimate was wrong by,
// so that no inner step is lost. In the paper the estimate is all there is, one round late.
//
// A replica that knows no average of a fragment (in its first round, as a joiner, after a
// checkpoint), or had no part in the last one, starts from its local parameters: start = local.
// None of this is stored.
//
//   kNone --begin--> kAhead --committed--> kSettled --adopt--> kNone
//   kAhead --take_back--> kNone      any --dropped--> kNone
//
// Vectors of a fragment are packed, the others whole (fragments.h). Pure; not thread-safe.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "outer_opt/core/round/round.h"
#include "outer_opt/core/step/fragments.h"
#include "outer_opt/core/step/outer_optimizer.h"

namespace shoal::outer_opt {

// w: what a member's pseudo-gradient is multiplied by in the mean that the plan asks for.
double share_of(const ReducePlan& plan, ReplicaId self);

enum class EagerState { kNone, kAhead, kSettled };

class EagerUpdates {
 public:
  // Fragments 1, 2, …, P of the vector. Number 0 is all of it, with P = 1 the only one in use.
  // The optimizer outlives this.
  EagerUpdates(std::vector<Fragment> fragments, const OuterOptimizer& optimizer);

  // At the boundary of a round that is adopted later. `vectors` are the optimizer's.
  void begin(std::int32_t fragment, std::span<const float> pseudo_gradient,
             const NamedVectors& vectors, std::span<const float> anchor, std::span<float> local);
  // The round continues: what was trained stays, the step does not.
  void take_back(std::span<const float> pseudo_gradient, std::span<const float> anchor,
                 std::span<float> local);
  // The average of a fragment was committed, with a part of this replica in it, and the outer step
  // taken with these terms.
  void committed(std::int32_t fragment, const StepTerms& terms, double share,
                 std::span<const float> pseudo_gradient, std::span<const float> average);
  // It was committed without; the caller puts local parameters on the anchor.
  void dropped(std::int32_t fragment);
  void adopt(std::span<const float> anchor, std::span<float> local);

  EagerState state() const { return state_; }
  bool knows(std::int32_t fragment) const { return last_of(fragment).has_value(); }

 private:
  struct Known {  // of the last average of a fragment
    StepTerms terms;
    float share = 0;
  };
  const std::optional<Known>& last_of(std::int32_t fragment) const;
  const Fragment& values_of(std::int32_t fragment) const;
  void take_step(const Known& known, std::span<const float> pseudo_gradient,
                 const NamedVectors& vectors);

  const OuterOptimizer& optimizer_;
  std::vector<Fragment> fragments_;         // the whole vector, then each
  std::vector<std::optional<Known>> last_;  // the same order
  std::vector<float> others_;               // A' - w D', of the whole vector
  std::vector<float> start_;                // of the fragment under way, packed
  std::int32_t under_way_ = 0;
  EagerState state_ = EagerState::kNone;
};

}  // namespace shoal::outer_opt
