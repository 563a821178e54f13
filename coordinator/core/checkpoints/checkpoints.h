// Checkpoints: asked of one replica of each stage right after a commit, uploaded by their agents,
// stored by the service, kept as the job's spec says. A checkpoint is stored when all its parts
// are; a part that fails is asked of another replica of its stage. A job's final checkpoint, and
// that of a pause, is asked for again until one is stored. No job fails because nothing can be
// stored: it says so (JobReason::kCheckpointFailing) and continues.
#pragma once

#include <vector>

#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// Asks an in-sync replica of each stage for its part of the committed state, whose anchors are all
// known.
void request_checkpoint(Transaction& tx, JobId job, bool final);

void on_checkpoint_written(Transaction& tx, const CheckpointWritten& written);
void on_checkpoint_failed(Transaction& tx, const CheckpointFailed& failed);
void on_checkpoint_upload_failed(Transaction& tx, const CheckpointUploadFailed& failed);
void on_checkpoint_uploaded(Transaction& tx, const CheckpointUploaded& uploaded);

// A writer is absent: another replica of the stage that holds the same state writes the part. When
// there is none, the part waits for the absent writer.
void hand_over_parts(Transaction& tx, const ReplicaRecord& absent);
void leave_checkpoints(Transaction& tx, const ReplicaRecord& ended);    // a writer is gone
void resend_checkpoint(Transaction& tx, const ReplicaRecord& replica);  // after a reconnect
bool writes_checkpoint(const State& state, ReplicaId replica);          // its files, now

// The replica's load found files of its source that do not match the record. After several such
// loads in a row the checkpoint is set aside: it is never chosen again, and its files are kept. Not
// while the job has another cut than the checkpoint (replicas/recutting.h). Nothing without a
// checkpoint as the source, or when the agent is too old to read it.
void doubt_source(Transaction& tx, const ReplicaRecord& replica, const std::string& detail);
void check_checkpoint_limits(Transaction& tx, JobId job);

// The checkpoint that train.continue_from names, while it is stored; null: none.
const CheckpointRecord* continued_from(const State& state, const JobRecord& job);
// The units of the stages that wrote its parts; empty: its parts do not say it, because an earlier
// version stored it.
std::vector<UnitRange> cut_of(const JobSpec& spec, const CheckpointRecord& checkpoint);
// Called before the job gets another cut. Stored checkpoints that do not record their cut are of
// the present one, which their parts record from now on.
void record_cut(Transaction& tx, const JobRecord& job);
// The parts of a replica's source that have units of its stage, when that is a checkpoint of
// another cut; else none.
struct PartRange {
  StageIndex first = 0;
  std::int32_t count = 0;
};
PartRange parts_of_source(const State& state, const ReplicaRecord& replica);
// The stored checkpoint of exactly the committed round. It belongs to another job only before the
// first commit of a job that continues it, and is of another cut only while JobRecord::recut_from
// names it.
const CheckpointRecord* checkpoint_of_committed(const State& state, const JobRecord& job);
bool checkpoint_of_committed_pending(const State& state, const JobRecord& job);
// The cut to roll back to: the newest stored one of the job, else what it continues.
const CheckpointRecord* newest_stored(const State& state, JobId job);
bool final_checkpoint_stored(const State& state, const JobRecord& job);
bool final_checkpoint_pending(const State& state, const JobRecord& job);

}  // namespace shoal::coordinator
