// Which sequences a router of a pipeline draws: those of its order, in order, a microbatch at a
// time. A microbatch is asked for again when the one that computes it was lost, so what it was
// drawn from is remembered until it was answered. Only what was answered counts as trained; the
// rest is unused() at the boundary, and the coordinator gives it out again. As with StepCursor an
// order may have sequences that this router trained already: they are not drawn again.
//
// Not thread-safe.
#pragma once

#include <optional>
#include <utility>

#include "base/flat_map.h"
#include "outer_opt/core/round/lease_runs.h"

namespace shoal::outer_opt {

class RouterLease {
 public:
  explicit RouterLease(std::int64_t microbatch);  // sequences

  // The order's runs, well_formed() in microbatches, without what was trained or is under way.
  void open(const OpenRound& round);
  const LeaseRuns& left() const { return left_; }

  // The first sequence of microbatch `index` of an inner step; none: the lease is over.
  std::optional<std::int64_t> draw(std::int64_t step, std::int64_t index);
  void answered(std::int64_t step, std::int64_t index);
  // The boundary: nothing is under way any more. Returns what was leased and not trained.
  LeaseRuns reported();
  void committed() { trained_.clear(); }

 private:
  std::int64_t microbatch_;
  LeaseRuns left_;                                                      // not drawn yet, in order
  LeaseRuns trained_;                                                   // since the last commit
  FlatMap<std::pair<std::int64_t, std::int64_t>, std::int64_t> drawn_;  // (step, index): first
};

}  // namespace shoal::outer_opt
