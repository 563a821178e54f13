// Outer momentum that nobody holds whole (sync.outer_state = sharded), after the optimizer states
// of ZeRO (Rajbhandari et al. 2020, section 5.1). In a butterfly the owner of a part averages it to
// d and takes the outer step for it with its momentum m, and what it encodes and sends is the step
//
//   u = lr * (d + beta * (beta * m + d))
//
// Every member, the owner too, decodes the same bytes and subtracts them: anchors stay identical.
// With m' = beta * m + d the step is lr * ((1 + beta) * d + beta^2 * m), and so
//
//   m' = (u / lr + beta * m) / (1 + beta)
//
// follows from what was sent alone. Owner and backup, the next owner in the plan's order, both do
// this with the decoded u: they stay equal without a byte on the wire, and each member keeps two
// parts, 2/n of the vector. Both formulas are in nesterov.h; no other outer optimizer can be
// sharded. An encoding error e of u acts as an error e / (lr * (1 + beta)) of d,
// once; it grows by less than beta^2 + rel^2 beta^4 / (1 + beta)^2 per round in the mean square,
// where rel is the codec's relative error: below 1 for every dense codec.
//
// When members or parts change, restage() says which ranges come from whom. A range whose owner and
// backup are gone starts from zero; who makes the plan says so
// (coordinator/core/checkpoints/momentum.h).
//
// All are fp32 with one rounding per operation. Pure; thread-safe as far as const.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "outer_opt/core/round/round.h"
#include "outer_opt/core/step/fragments.h"

namespace shoal::outer_opt {

// anchor -= step.
void apply_step(std::span<const float> step, std::span<float> anchor);

// Some ranges of a vector of momentum.
class MomentumShards {
 public:
  MomentumShards() = default;                               // of nothing
  explicit MomentumShards(std::vector<ValueRange> ranges);  // zeros; ranges are disjoint

  const std::vector<ValueRange>& ranges() const { return ranges_; }
  // Whether `range` lies in one of them; at() requires it.
  bool holds(const ValueRange& range) const;
  std::span<const float> at(const ValueRange& range) const;
  std::span<float> at(const ValueRange& range);

  // After the commit of a round, what is held of the run; `step` is the run's.
  void follow(const OwnerTerms& outer, const ValueRange& run, std::span<const float> step);

 private:
  std::size_t index_of(const ValueRange& range) const;  // ranges_.size(): not held

  std::vector<ValueRange> ranges_;
  std::vector<std::vector<float>> values_;  // one vector per range
};

// What `self` keeps after the commit of a plan with these members: its own part and that of the
// owner before it, in the order of the vector. Nothing when it owns no part.
std::vector<ValueRange> kept_ranges(std::span<const ReduceMember> members, ReplicaId self);

struct Restaged {
  MomentumShards shards;                // what was at hand is in place, all else is zero
  std::vector<MomentumHolder> missing;  // cut to what has to be fetched, from these holders
};
// Makes the shards of `ranges` from those that `self` holds. kValidation when the holders say that
// `self` holds what it does not.
Result<Restaged> restage(const std::vector<ValueRange>& ranges, ReplicaId self,
                         const std::vector<MomentumHolder>& holders, const MomentumShards& held);

// Whether `held` are the shards of `ranges` already, so that nothing has to be made.
bool stays(const std::vector<ValueRange>& ranges, ReplicaId self,
           const std::vector<MomentumHolder>& holders, const MomentumShards& held);

// The most values that one member has to fetch before it can take part.
std::int64_t most_missing(const ReducePlan& plan);

// How many of the values [0, value_count) no holder has.
std::int64_t values_without_holder(std::int64_t value_count,
                                   const std::vector<MomentumHolder>& holders);

}  // namespace shoal::outer_opt
