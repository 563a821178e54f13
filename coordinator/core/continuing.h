// Jobs that continue a checkpoint of another job (train.continue_from). They begin at its rounds,
// steps, outer momentum, moments and place in the data, and continue under their own name and
// schedule. What both jobs must have in common is checked when the job is submitted.
#pragma once

#include <vector>

#include "base/result.h"
#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// What keeps a valid spec from continuing its checkpoint, which is stored (refused_checkpoints()):
// the job differs from that of the checkpoint in its model, cut, data, optimizer or outer state, or
// has no steps left. `spec` has its derived fields.
std::vector<FieldError> refused_continuation(const State& state, const JobSpec& spec);

// A new job whose spec was not refused stands at its checkpoint. Returns the words of the event.
std::string stand_at_continued(const State& state, JobRecord& job);

// Why it cannot train on: what it continues cannot be loaded, and nothing of its own is stored.
// Empty for any other job. From the initial parameters it would be another job.
std::string lost_beginning(const JobRecord& job);

}  // namespace shoal::coordinator
