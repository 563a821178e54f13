// Jobs that continue a checkpoint of another one (train.continue_from): what a checker knows of
// that job up to the checkpoint holds of the new one, too.
#pragma once

#include "job/data_rules.h"
#include "tests/sim/store.h"

namespace shoal::sim {

// The cut that it names; null: none, or no longer in the tables.
inline const coordinator::CheckpointRecord* continued_cut(const coordinator::JobRecord& job,
                                                          const Tables& tables) {
  const auto id = checkpoint_of_weights(job.spec.train.continue_from);
  const auto found = id ? tables.checkpoints.find(*id) : tables.checkpoints.end();
  return found == tables.checkpoints.end() ? nullptr : &found->second;
}

// The same for a record with which a job begins; null: `before` knows the job already.
inline const coordinator::CheckpointRecord* begins_with(const coordinator::JobRecord& job,
                                                        const Tables& before) {
  return before.jobs.contains(job.id) ? nullptr : continued_cut(job, before);
}

}  // namespace shoal::sim
