// Authorizes the checkpoints that a job names, in the step that accepts or resumes the job: no
// other input comes between the check and the use. Uploads are authorized by the service, because
// the core does not know them (coordinator/service/files/resolve.h).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/field_error.h"
#include "coordinator/core/records/access.h"
#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// One error for each named checkpoint that is not stored, or that none of `users` may use: the same
// error for both.
std::vector<FieldError> refused_checkpoints(const State& state, std::span<const ObjectUser> users,
                                            const JobSpec& spec);

// For the audit trail: those that are here, but that none of `users` may use; "ckpt_3 of ada".
// Empty: none.
std::string forbidden_checkpoints(const State& state, std::span<const ObjectUser> users,
                                  const JobSpec& spec);

}  // namespace shoal::coordinator
