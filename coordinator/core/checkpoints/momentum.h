// Sharded outer momentum (sync.outer_state = sharded, outer_opt/core/step/momentum_shards.h) as the
// coordinator sees it. Which replica keeps which ranges after the newest commit follows from the
// parts of the committed round. A replica that has just loaded a checkpoint keeps all of them. The
// records of rounds have it, and so do the commit records that members keep, which a restored
// coordinator asks for.
#pragma once

#include <vector>

#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// The holders for one stage; first those that are known to have taken the outer step of that round.
// Empty for jobs that do not shard, and before the first commit, when all momentum is zero.
std::vector<MomentumHolder> momentum_holders(const State& state, const JobRecord& job,
                                             StageIndex stage);

// Tells of momentum that nobody of `holders` has: it starts from zero.
void warn_of_lost_momentum(Transaction& tx, const JobRecord& job, StageIndex stage,
                           const std::vector<MomentumHolder>& holders);

// Gives the members of `plan` the parts that they had in the committed round. False, and nothing is
// changed, when they are not the same members or an owner among them has no `reachable` line now:
// then new parts must be cut.
bool keep_parts(const State& state, ReducePlan& plan, StageIndex stage,
                const std::vector<bool>& reachable);

}  // namespace shoal::coordinator
