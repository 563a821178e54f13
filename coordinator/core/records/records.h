// Everything the coordinator remembers, one struct per table of migrations/. The state of the core
// is these records and nothing else that matters: loading the tables into a fresh core gives the
// same digest as the live one. Who is connected and when it was last heard is volatile (state.h).
//
// A field is written by one machine only; the comment names it where that is not obvious.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/digest.h"
#include "base/job_spec.h"
#include "base/time.h"
#include "coordinator/core/records/agent_record.h"
#include "coordinator/core/records/checkpoint_record.h"
#include "coordinator/core/records/link_record.h"
#include "coordinator/core/records/submitted_text.h"
#include "outer_opt/core/round/topology.h"
#include "swarm/core/messages.h"

namespace shoal::coordinator {

// ---- jobs

enum class JobPhase {
  kQueued,     // no agent can take it yet
  kGathering,  // agents are being assigned
  kWarming,    // replicas load their state
  kTraining,
  kStalled,  // too few replicas; goes on by itself
  kSealing,  // trained, or to be paused: the last evaluation and checkpoint
  kPaused,   // by the operator: it holds nothing, and goes on from its newest checkpoint
  kCompleted,
  kCancelled,
  kFailed,
};
enum class JobDesired { kRun, kPause, kCancel };

// Why a job is in its phase. Closed list: the API, the tests and the log use these words.
enum class JobReason {
  kNone,
  kNoAgents,            // nobody is there
  kNoDeviceFits,        // agents are there, none with enough memory
  kWaitingForReplicas,  // fewer than swarm.min_replicas
  kLoading,
  kRunning,
  kReconnecting,  // the coordinator was started, and none of its replicas has spoken yet
  kBelowMinReplicas,
  kLastReplicaLost,
  kWaitingForAbsent,  // they hold newer state than any checkpoint; the detail says who and how long
  kRestoring,         // from a checkpoint
  kFinalCheckpoint,
  kPausing,  // its round is finished, its checkpoint stored
  kPausedByUser,
  kCheckpointFailing,  // the newest could not be stored; it is tried again
  kFinished,
  kCancelledByUser,
  kDataMissing,
  kDataInvalid,
  kModelDoesNotFit,
  kTooManyFailures,
};

// One stage of a job's model and what its replicas hold after the last commit.
struct JobStage {
  UnitRange units;
  std::int64_t value_count = 0;              // parameters, once loaded
  Digest anchor, momentum;                   // zero until a replica loaded, or took the outer step
  std::vector<std::int64_t> fragments = {};  // lengths, where there are several, once loaded
  bool operator==(const JobStage&) const = default;
};

struct JobRecord {
  JobId id;
  JobSpec spec;
  JobPhase phase = JobPhase::kQueued;
  JobDesired desired = JobDesired::kRun;  // the operator's
  JobReason reason = JobReason::kNone;
  std::string detail;  // one sentence for people, may be empty
  Instant created_at, updated_at;
  Instant started_at, finished_at;  // zero: not yet

  double outer_lr = 0;  // of the rounds that are sealed from now on; the operator's
  std::int64_t lineage = 0;
  RoundNumber committed_round = 0;
  Instant committed_at;
  Steps committed_step;  // inner steps covered by committed rounds
  Tokens committed_tokens;
  std::vector<JobStage> stages;  // the plan, fixed for the life of the job; empty until it is made
  std::int64_t view = 0;         // number of the last PipelineView
  std::int64_t routers = 0;      // the most that one of its rounds had; 0 before the first
  std::int64_t next_sequence = 0;   // first sequence never leased
  std::vector<DataLease> returned;  // leased, not trained; sorted by first
  Digest data;  // of the training data, as the first replica that reads it said; zero: none has
  Instant rollback_at;  // it waits for absent replicas until then; zero: it does not wait

  double train_loss = 0;       // of the last committed round; 0 before the first
  double validation_loss = 0;  // newest complete evaluation; 0 before the first
  RoundNumber validation_round = -1;
  Bytes bytes_sent;                    // by all replicas in all committed rounds
  std::int32_t failures_in_row = 0;    // of replicas, since the last commit
  Instant balance_at;                  // no move for balance before
  std::int32_t balance_confirmed = 0;  // looks in a row that found the stages out of balance
  bool operator==(const JobRecord&) const = default;
};

// ---- replicas

enum class ReplicaState {
  kAssigned,
  kLoading,
  kServing,
  kAveraging,
  kAbsent,  // its agent is out of reach; it takes part in nothing, and goes on with what it holds
  kReleased,
  kFailed
};

struct ReplicaRecord {
  ReplicaId id;
  JobId job;
  AgentId agent;
  Incarnation incarnation;  // of the agent when it was assigned
  std::int32_t device = 0;
  StageIndex stage = 0;
  ReplicaState state = ReplicaState::kAssigned;
  ReplicaFailure failure = ReplicaFailure::kInternal;  // meaningful in kFailed
  std::string detail;
  StateSource source;
  std::string address;  // of its peer service, once loaded
  std::int64_t lineage = 0;
  RoundNumber held_round = -1;  // the committed state it holds; -1 before it loaded
  Digest anchor, momentum;      // of held_round
  std::uint64_t store = 0;  // CounterRecord.store when it was assigned: an id may be given again
                            // after a backup was put back, the two together never are
  Instant absent_since;     // in kAbsent
  Instant created_at, updated_at;
  bool operator==(const ReplicaRecord&) const = default;
};

// ---- rounds

enum class RoundState { kOpen, kSealed, kReducing, kVoting, kCommitted, kAborted };

// The reduce of one stage, or of one group of a job that averages in groups (round_groups.h).
struct RoundStage {
  std::int32_t attempt = 0;  // grows over aborts too; 0 before the first seal
  Instant attempt_started_at;
  Digest average, anchor, momentum;                   // committed; the latter after the outer step
  outer_opt::TopologyChoice choice;                   // of the newest attempt
  std::int64_t frame_values = kFrameValuesUsual;      // of its plan
  bool entropy_coding = false;                        // likewise
  std::vector<MomentumHolder> momentum_holders = {};  // likewise, with sync.outer_state = sharded
  bool given_up = false;  // the round goes on without this group, whose members keep what they have
  Digest base = {}, base_momentum = {};  // anchor and momentum that the outer step begins with
  bool operator==(const RoundStage&) const = default;
};

struct RoundRecord {
  RoundKey key;
  // Of all stages together: `voting` from the first vote on, `sealed` again with a new attempt.
  RoundState state = RoundState::kOpen;
  std::vector<RoundStage> stages;  // one per reduce: as many as the job has stages, or groups
  std::int32_t aborts = 0;         // times this round number was aborted and opened again
  AbortReason abort_reason = AbortReason::kAttemptsSpent;  // with kAborted or aborts > 0
  Steps from_step, to_step;
  Instant opened_at, sealed_at, committed_at;  // zero: not yet
  Tokens tokens;                               // drawn by the routers whose contributions count
  double train_loss = 0;                       // mean over those tokens
  double validation_loss = 0;                  // 0: not (yet) evaluated
  Tokens validation_tokens;                    // evaluated so far
  double validation_sum = 0;                   // nats
  std::int32_t eval_slices = 0;                // 0: this round is not evaluated
  double outer_lr = 0;                         // the job's when it was sealed
  double share = 1;                // async: of the replicas, whose contributions it committed
  std::int64_t carried_steps = 0;  // async: what is left of them (arrivals.h)
  Tokens job_tokens;               // the job's with this round; zero: not committed
  bool operator==(const RoundRecord&) const = default;
};

enum class ContributionState {
  kTraining,  // opened, not reported
  kReported,
  kMember,  // sealed into the plan
  kVoted,
  kCommitted,  // its tokens count
  kKept,       // they count, and what it trained goes into its next round: its group gave up
  kRejected,   // weight 0: reject_reason says why, and somebody should look at it
  kLate,       // weight 0: it trains on, and what it trains counts in a later round
  kFollowed,   // weight 0: it had nothing trained; reject_reason says why
  kServed,     // a reducer, which has nothing of its own
  kLost,       // left out of the attempt that committed
  kMoved,      // let go before the seal: its device serves another stage
};

struct ContributionRecord {
  RoundKey key;
  ReplicaId replica;
  AgentId agent;
  StageIndex stage = 0;
  std::int32_t group = 0;  // of the newest seal, where the job averages in groups
  bool reducer = false;    // it trains nothing, and averages for those that do
  ContributionState state = ContributionState::kTraining;
  RejectReason reject_reason = RejectReason::kNone;
  std::vector<DataLease> leases;  // of this round, over its aborts
  RoundReport report;  // from kReported on; without links, aborts and unused, which are elsewhere
  Instant reported_at, voted_at, applied_at;
  double weight = 0, clip_factor = 1;
  std::int32_t member_index = -1;  // order in the plan, -1: not a member of the current attempt
  std::int64_t part_first = 0, part_count = 0;
  bool left_out = false;                        // an owner's vote in the current attempt says so
  Digest average, anchor;                       // voted, applied
  Digest momentum, base, base_momentum, added;  // as Applied said, `added` its average
  ReduceStats stats;                            // bytes summed over attempts; reduce_s of the last
  std::int64_t eval_slice = -1;                 // share of the validation it was given, -1: none
  bool evaluated = false;
  bool operator==(const ContributionRecord&) const = default;
};

// ---- events

enum class Severity { kInfo, kWarning, kError };

// One line of history. `kind` is a closed word (event_kinds.h), e.g. "job_phase".
struct EventRecord {
  std::int64_t seq = 0;
  Instant at;
  Severity severity = Severity::kInfo;
  std::string kind;
  JobId job;  // zero: none
  AgentId agent;
  ReplicaId replica;
  RoundNumber round = 0;
  std::string message;
  bool operator==(const EventRecord&) const = default;
};

// Counters that must survive a restart.
struct CounterRecord {
  std::uint64_t next_job = 1, next_agent = 1, next_replica = 1, next_checkpoint = 1;
  std::int64_t next_event = 1;
  std::int64_t boot_epoch = 0;  // raised by each start of the coordinator
  std::uint64_t store = 0;      // drawn at random by each start: names the ids that it gives out
  Instant backup_at;  // this is a backup of then, and not all jobs know yet from where they go on
  bool operator==(const CounterRecord&) const = default;
};

using Record =
    std::variant<CounterRecord, JobRecord, AgentRecord, ReplicaRecord, RoundRecord,
                 ContributionRecord, CheckpointRecord, EventRecord, SubmittedText, LinkRecord>;

// What a store gives a starting core: every record but events and texts, replicas that have not
// ended, and of rounds and contributions those of live jobs: the last committed and the next round.
struct Snapshot {
  CounterRecord counters;
  std::vector<JobRecord> jobs;
  std::vector<AgentRecord> agents;
  std::vector<ReplicaRecord> replicas;  // not released or failed
  std::vector<RoundRecord> rounds;
  std::vector<ContributionRecord> contributions;
  std::vector<CheckpointRecord> checkpoints;  // not deleted
  std::vector<LinkRecord> links;
};

const char* to_string(JobPhase value);
const char* to_string(JobDesired value);
const char* to_string(JobReason value);
const char* to_string(ReplicaState value);
const char* to_string(RoundState value);
const char* to_string(ContributionState value);
const char* to_string(Severity value);

// The entry of one stage of a JobRecord, of one reduce of a RoundRecord.
template <typename Record>
auto& stage_of(Record& record, std::int32_t index) {
  return record.stages.at(static_cast<std::size_t>(index));
}
using ReduceIndex = std::int32_t;  // of a contribution: only one of the two is ever above 0
inline ReduceIndex reduce_index(const ContributionRecord& c) { return c.stage + c.group; }

bool is_terminal(JobPhase phase);      // completed, cancelled, failed
bool is_terminal(ReplicaState state);  // released, failed

}  // namespace shoal::coordinator
