// From a plan to the session of its topology.
#pragma once

#include <memory>

#include "outer_opt/core/reduce/average_frames.h"
#include "outer_opt/core/reduce/reduce_session.h"

namespace shoal::outer_opt {

// The session of `self` in `plan`. kValidation with the name of a field when the plan does not fit.
// The spans outlive the session; `average` is complete, and the same everywhere, when the session
// is done. It may keep frames where AverageFrames suit the plan, and `self` is no reducer.
Result<std::unique_ptr<ReduceSession>> make_session(const ReducePlan& plan, ReplicaId self,
                                                    std::int64_t frame_values,
                                                    const ReduceInput& input, AverageRoom average);

}  // namespace shoal::outer_opt
