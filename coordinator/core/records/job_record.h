// The coordinator's record of a job: its spec, its progress, and the model that its replicas hold.
// One of the records of records.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/fields.h"
#include "base/time.h"
#include "job/job_spec.h"
#include "outer_opt/core/round/round_parts.h"

namespace shoal::coordinator {

using shoal::to_string;

enum class JobPhase {
  kQueued,     // no agent can take it yet
  kGathering,  // agents are being assigned
  kWarming,    // replicas load their state
  kTraining,
  kStalled,     // too few replicas; continues by itself
  kFinalizing,  // trained, or to be paused: the last evaluation and checkpoint
  kPaused,      // by the operator: it holds nothing, and continues from its newest checkpoint
  kCompleted,
  kCancelled,
  kFailed,
};
constexpr auto enumerators_of(Of<JobPhase>) {
  using enum JobPhase;
  return enumerators<JobPhase>({{kQueued, "queued"},
                                {kGathering, "gathering"},
                                {kWarming, "warming"},
                                {kTraining, "training"},
                                {kStalled, "stalled"},
                                {kFinalizing, "finalizing"},
                                {kPaused, "paused"},
                                {kCompleted, "completed"},
                                {kCancelled, "cancelled"},
                                {kFailed, "failed"}});
}

enum class JobDesired { kRun, kPause, kCancel };
constexpr auto enumerators_of(Of<JobDesired>) {
  using enum JobDesired;
  return enumerators<JobDesired>({{kRun, "run"}, {kPause, "pause"}, {kCancel, "cancel"}});
}

// Why a job is in its phase. Closed list: the API, the tests and the log use these words.
enum class JobReason {
  kNone,
  kNoAgents,            // no agent is connected
  kNoDeviceFits,        // no connected agent has enough memory
  kWaitingForReplicas,  // fewer than swarm.min_replicas
  kLoading,
  kRunning,
  kReconnecting,  // the coordinator has restarted, and no replica of the job has reported yet
  kBelowMinReplicas,
  kLastReplicaLost,
  kWaitingForAbsent,  // they hold newer state than any checkpoint; the detail says who and how long
  kRestoring,         // from a checkpoint
  kFinalCheckpoint,
  kPausing,  // its round is finished, its checkpoint stored
  kPausedByUser,
  kCheckpointFailing,  // the newest checkpoint could not be stored; the job tries again
  kFinished,
  kCancelledByUser,
  kDataMissing,
  kDataInvalid,
  kModelDoesNotFit,
  kTooManyFailures,
  kCorruptRecord,   // what is stored of it contradicts itself (state/corrupt_records.h)
  kPreempted,       // its round is finished, its checkpoint stored, for a job of higher priority
  kMeasuring,       // blocks of its model and lines of hosts are measured, before it is cut
  kHigherPriority,  // jobs of higher priority have the devices that it could take, or get them next
  kRecutting,       // its round is finished, its checkpoint stored, to be placed anew (swarm.recut)
};
constexpr auto enumerators_of(Of<JobReason>) {
  using enum JobReason;
  return enumerators<JobReason>({{kNone, "none"},
                                 {kNoAgents, "no_agents"},
                                 {kNoDeviceFits, "no_device_fits"},
                                 {kWaitingForReplicas, "waiting_for_replicas"},
                                 {kLoading, "loading"},
                                 {kRunning, "running"},
                                 {kReconnecting, "reconnecting"},
                                 {kBelowMinReplicas, "below_min_replicas"},
                                 {kLastReplicaLost, "last_replica_lost"},
                                 {kWaitingForAbsent, "waiting_for_absent"},
                                 {kRestoring, "restoring"},
                                 {kFinalCheckpoint, "final_checkpoint"},
                                 {kPausing, "pausing"},
                                 {kPausedByUser, "paused_by_user"},
                                 {kCheckpointFailing, "checkpoint_failing"},
                                 {kFinished, "finished"},
                                 {kCancelledByUser, "cancelled_by_user"},
                                 {kDataMissing, "data_missing"},
                                 {kDataInvalid, "data_invalid"},
                                 {kModelDoesNotFit, "model_does_not_fit"},
                                 {kTooManyFailures, "too_many_failures"},
                                 {kCorruptRecord, "corrupt_record"},
                                 {kPreempted, "preempted"},
                                 {kMeasuring, "measuring"},
                                 {kHigherPriority, "higher_priority"},
                                 {kRecutting, "recutting"}});
}

// One stage of a job's model and what its replicas hold after the last commit. Where no record has
// the digests (at the start, or on a new cut), the first replica that loads defines them.
struct JobStage {
  UnitRange units;
  std::int64_t value_count = 0;              // parameters, once loaded
  Digest anchor, momentum;                   // zero until a replica loaded, or took the outer step
  std::vector<std::int64_t> fragments = {};  // lengths, where there are several, once loaded
  bool operator==(const JobStage&) const = default;
};
constexpr auto fields_of(Of<JobStage>) {
  using T = JobStage;
  return fields<&T::units, &T::value_count, &T::anchor, &T::momentum, &T::fragments>();
}

struct JobRecord {
  JobId id;
  JobSpec spec;
  JobPhase phase = JobPhase::kQueued;
  JobDesired desired = JobDesired::kRun;  // the operator's
  JobReason reason = JobReason::kNone;
  std::string detail;  // one sentence for people, may be empty
  Instant created_at, updated_at;
  Instant started_at, finished_at;  // zero: not yet

  double outer_lr = 0;  // of the rounds that are frozen from now on; the operator's
  std::int64_t epoch = 0;
  RoundNumber committed_round = 0;
  Instant committed_at;
  Steps committed_step;  // inner steps covered by committed rounds
  Tokens committed_tokens;
  Steps begun_step;  // what the checkpoint had that it continues; 0: it began anew
  Tokens begun_tokens;
  // The cut; empty until it is made. With swarm.recut it may change while no replica lives
  // (replicas/recutting.h), else it never does.
  std::vector<JobStage> stages;
  std::int64_t view = 0;            // number of the last PipelineView
  std::int64_t routers = 0;         // the most that one of its rounds had; 0 before the first
  std::int64_t next_sequence = 0;   // first sequence never leased
  std::vector<DataLease> returned;  // leased, not trained; sorted by first
  std::int64_t lease_unit = 0;      // LeasePlace::unit; 0: of a job without datasets
  Digest data;  // of the training data, as the first replica that reads it said; zero: none has
  Instant rollback_at;  // it waits for absent replicas until then; zero: it does not wait

  double train_loss = 0;       // of the last committed round; 0 before the first
  double validation_loss = 0;  // newest complete evaluation; 0 before the first
  RoundNumber validation_round = -1;
  Bytes bytes_sent;                    // by all replicas in all committed rounds
  std::int32_t failures_in_row = 0;    // of replicas, since the last commit
  Instant balance_at;                  // no move for balance before
  std::int32_t balance_confirmed = 0;  // looks in a row that found the stages out of balance
  std::string owner;  // who submitted it, by the name of the token; empty: before there were any
  // Zero: it was not. What else is stored of a removed job goes; this record stays, so that nobody
  // who comes late with a replica or files of it brings it back (removal.h).
  Instant removed_at;
  std::int64_t priority = kPriorityDefault;  // the operator's (core/priority.h)
  JobId yields_to = {};  // it gives its devices up for this job after its round; zero: it does not
  bool recuts = false;  // it is placed anew after its round (replicas/replanning.h), as was decided
  Instant recut_at;     //   last at this time; zero: never
  // The checkpoint of another cut that the stages are loaded from, until the next commit; zero: its
  // checkpoints are of its cut.
  CheckpointId recut_from = {};
  bool operator==(const JobRecord&) const = default;
};
constexpr auto fields_of(Of<JobRecord>) {
  using T = JobRecord;
  return fields<
      &T::id, &T::spec, &T::phase, &T::desired, &T::reason, &T::detail, &T::created_at,
      &T::updated_at, &T::started_at, &T::finished_at, &T::outer_lr, &T::epoch, &T::committed_round,
      &T::committed_at, &T::committed_step, &T::committed_tokens, &T::begun_step, &T::begun_tokens,
      &T::stages, &T::view, &T::routers, &T::next_sequence, &T::returned, &T::lease_unit, &T::data,
      &T::rollback_at, &T::train_loss, &T::validation_loss, &T::validation_round, &T::bytes_sent,
      &T::failures_in_row, &T::balance_at, &T::balance_confirmed, &T::owner, &T::removed_at,
      &T::priority, &T::yields_to, &T::recuts, &T::recut_at, &T::recut_from>();
}

bool is_terminal(JobPhase phase);  // completed, cancelled, failed
// Its round is finished, its state stored and its devices let go: the operator pauses it, it yields
// to a job of higher priority, or it is to be placed anew.
bool is_to_let_go(const JobRecord& job);
JobReason why_let_go(const JobRecord& job);  // kPausing, kPreempted or kRecutting

}  // namespace shoal::coordinator
