// A job specification in a message to another process, which may be of the version before: fields
// that have their default are left out. So a process that does not know a new field reads every job
// that does not use it, and refuses only those that do.
#pragma once

#include <string>

#include "job/job_spec.h"

namespace shoal::proto {

// read_kept_spec() gives the same spec again.
std::string sent_spec(const JobSpec& spec);

}  // namespace shoal::proto
