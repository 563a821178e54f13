// The rules of the [sync] table: which keys cannot stand together, and what their values may be.
#pragma once

#include "job/field_checker.h"
#include "job/job_spec.h"

namespace shoal {

// Refuses every key that effective_sync() changes, unless it is an ineffective one
// (ineffective_options.h): with the key that won over it, and why.
void check_contradictions(const JobSpec& options, FieldChecker& checker);

// Checks contradictions, and the values of the remaining keys.
void check_sync(const JobSpec& options, FieldChecker& checker);

}  // namespace shoal
