// See eager_rules.h.
#include "job/eager_rules.h"

namespace shoal {

void check_eager(const SyncSpec& sync, FieldChecker& checker) {
  if (!sync.eager) return;
  if (sync.overlap_steps == Steps(0)) {
    checker.refuse("/sync/eager",
                   "must be false with sync.overlap_steps = 0, where nobody goes on before the "
                   "result is there, got true");
  }
  checker.require(sync.blend == 0, "/sync/blend",
                  "must be 0 with sync.eager = true, which keeps all that was trained meanwhile",
                  sync.blend);
  if (sync.aggregator != Aggregator::kMean) {
    checker.refuse("/sync/eager",
                   "must be false with sync.aggregator = " + quoted(to_string(sync.aggregator)) +
                       ": a replica does not know its own part in the result, got "
                       "true");
  }
  if (sync.outer_state == OuterState::kSharded) {
    checker.refuse("/sync/eager",
                   "must be false with sync.outer_state = 'sharded', where no replica has the "
                   "outer momentum that its estimate needs, got true");
  }
}

}  // namespace shoal
