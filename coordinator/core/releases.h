// How a job leaves its devices: to go back to a cut of its past, to pause, or for good. All its
// replicas and reducers are released and what they were in the middle of is dropped; what was
// committed stays in its checkpoints.
#pragma once

#include <string>

#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// Its rounds are history: what follows the committed one is numbered from there again.
void begin_epoch(Transaction& tx, JobId id);

// Makes the stored cut the committed state of the job, with the stages that it was stored with.
// Null: the seed.
void stand_at(JobRecord& job, const CheckpointRecord* cut);

// Called when no live replica of some stage holds the committed state and no checkpoint of exactly
// that round exists: the whole job rolls back to the newest consistent cut, which may be the seed.
void roll_back(Transaction& tx, JobId id);

// Moves the whole job to its newest stored cut, which is as new as the committed round or newer.
void go_forward(Transaction& tx, JobId id);

// Moves a job whose new cut is refused (replicas/recutting.h) back to the cut of its checkpoint,
// and forgets refusals that are over. Called before each look at a job.
void leave_refused_cut(Transaction& tx, JobId id);

// Now, to continue from the newest cut: that of the committed round, where the caller saw to it. An
// unfinished round is given up, which begins a new epoch.
void pause_job(Transaction& tx, JobId id);

// Nothing of it is under way that a checkpoint does not have already.
bool pauses_at_once(const State& state, const JobRecord& job);

// As pause_job(); a job that is to run is queued again at once, and one that is to be placed anew
// (replicas/replanning.h) takes devices without waiting for late ones.
void give_devices_up(Transaction& tx, JobId id);

// A paused job waits for devices again, with a clean slate of failures.
void queue_again(Transaction& tx, JobId id);

// `phase` is a terminal one.
void finish_job(Transaction& tx, JobId id, JobPhase phase, JobReason reason,
                std::string detail = {});

}  // namespace shoal::coordinator
