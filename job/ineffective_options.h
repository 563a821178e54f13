// Fields of a job that nothing reads because of what another field says: the feedback of a codec
// that keeps no residual, the schedule of a pipeline of one stage. A field whose only accepted
// value there says that it is off (sync.quorum = 0) is not one of them. The author of such a field
// expects something that will not happen, so it is refused where people's texts are read
// (proto/job_spec_text.h); a spec as a value may hold any value there.
#pragma once

#include <vector>

#include "job/job_rules.h"

namespace shoal {

// Each ineffective field of a spec that validate() accepts, with the reason and what to do, in the
// order of the fields.
std::vector<FieldError> ineffective_options(const JobSpec& options);

}  // namespace shoal
