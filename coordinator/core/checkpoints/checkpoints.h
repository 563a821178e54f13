// Checkpoints: asked of one replica of each stage right after a commit, uploaded by their agents,
// stored by the service, kept as the job's spec says. A checkpoint is stored when all its parts
// are; a part that fails is asked of another replica of its stage. A job's final checkpoint, and
// that of a pause, is asked for again until one is stored. No job fails because nothing can be
// stored: it says so (JobReason::kCheckpointFailing) and goes on.
#pragma once

#include "coordinator/core/state/turn.h"

namespace shoal::coordinator {

// Asks a holder of each stage for its part of the committed state, whose anchors are all known.
void request_checkpoint(Turn& turn, JobId job, bool final);

void on_checkpoint_written(Turn& turn, const CheckpointWritten& written);
void on_checkpoint_failed(Turn& turn, const CheckpointFailed& failed);
void on_checkpoint_upload_failed(Turn& turn, const CheckpointUploadFailed& failed);
void on_checkpoint_uploaded(Turn& turn, const CheckpointUploaded& uploaded);

// Its writer is absent: another replica of the stage that holds the same state writes the part;
// where there is none, the part waits for it.
void hand_over_parts(Turn& turn, const ReplicaRecord& absent);
void leave_checkpoints(Turn& turn, const ReplicaRecord& ended);    // a writer is gone
void resend_checkpoint(Turn& turn, const ReplicaRecord& replica);  // after a reconnect
bool writes_checkpoint(const State& state, ReplicaId replica);     // its files, now

// A load found that its files are not those of the record; several in a row, and it is set aside:
// never chosen again, its files kept.
void doubt_checkpoint(Turn& turn, CheckpointId id, const std::string& detail);
void check_checkpoint_limits(Turn& turn, JobId job);

// Stored, of exactly the committed round.
const CheckpointRecord* checkpoint_of_committed(const State& state, const JobRecord& job);
bool checkpoint_of_committed_pending(const State& state, const JobRecord& job);
// The newest stored one of the job: the cut to roll back to.
const CheckpointRecord* newest_stored(const State& state, JobId job);
bool final_checkpoint_stored(const State& state, const JobRecord& job);
bool final_checkpoint_pending(const State& state, const JobRecord& job);

}  // namespace shoal::coordinator
