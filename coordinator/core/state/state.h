// All that the coordinator's core knows: the durable records that are still alive, and what is true
// only for this process (who is connected, which timers run): two types, so that nobody changes one
// for the other.
//
// Kept in memory: every job and agent; replicas, rounds and contributions of live jobs, of which
// rounds only the unfinished one and the last committed one. The rest of history is in the store.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "base/flat_map.h"
#include "coordinator/core/decisions/compute_watch.h"
#include "coordinator/core/decisions/foreign_load.h"
#include "coordinator/core/decisions/join_share.h"
#include "coordinator/core/decisions/options.h"
#include "coordinator/core/decisions/seen_service.h"
#include "coordinator/core/decisions/speed_watch.h"
#include "coordinator/core/records/records.h"
#include "coordinator/core/state/device_faults.h"
#include "coordinator/core/state/durable_state.h"
#include "coordinator/core/state/io.h"
#include "coordinator/core/state/line_queue.h"
#include "coordinator/core/state/lost_time.h"
#include "coordinator/core/state/record_keys.h"
#include "coordinator/core/state/recut_refusal.h"

namespace shoal::coordinator {

// The stream of one agent.
struct Presence {
  ConnectionId connection;
  bool connected = false;
  Instant last_seen;
  Instant hung_up_at, lost_at;  // while not connected
  bool hears_relays = false;    // as its hello says
  std::int32_t protocol = 0;    // that it speaks
};

// The running attempt of one reduce.
struct ReduceTimers {
  std::optional<Instant> first_failure_at;
  FlatMap<ReplicaId, ReduceFailed> failures;
  std::int32_t attempts = 0;  // since the round was (re)opened, in this process
};

// A load that will fail again, and what its replica said.
struct LoadRefusal {
  ReplicaFailure failure = ReplicaFailure::kInternal;
  std::string detail;
  // Zero: not before its agent is restarted. The answer holds until it has loaded the job.
  Instant ask_again_at = {};
};

// An agent whose line cannot carry the rounds of a job: it is not asked to join it before then.
struct SlowLine {
  Instant ask_again_at;
  std::int32_t times = 0;  // how often in a row it was too slow
};

// Failures that count against a device (replicas/device_failures.h), since a replica there
// contributed to a committed round.
struct DeviceFailures {
  struct Failure {
    Instant at;
    std::string reason;
  };
  std::int32_t in_row = 0;      // of any job
  Instant at;                   // the newest one
  JobId job;                    // of the newest one
  std::vector<Failure> of_job;  // as many as lead to a cordon at most
};

// How fast a replica computes (rounds/speeds.h).
struct WatchedSpeed {
  SpeedWatch watch;
  Instant heard_at;               // its last word of work, and what it had done then:
  std::int64_t microbatches = 0;  //   in a pipeline;
  RoundKey key;                   //   in a job of one stage: in this round
  Tokens tokens;                  //   so many
  double promised = 0;            // pace, by its device and the other replicas; 0: not known
  std::int32_t sharing = 1;       // replicas on its device, itself included
  std::optional<Instant> compared_at, shown_at;  // the two above were looked up; ShowSpeed
};

// A device that computed at this share of what it promised.
struct SlowDevice {
  double ratio = 1;
  Instant at;  // when it was seen last
};

// The progress of a load, or of the storing of a checkpoint.
struct Movement {
  Bytes done, total;
  Instant at;  // of the last progress
};

// A device was moved to another stage.
struct LeftStage {
  StageIndex stage = 0;  // that it left
  Instant at;
};

// Looks at whether a job would be faster if it were placed anew (replicas/replanning.h).
struct PlanWatch {
  std::optional<Instant> looked_at;
  std::vector<double> measured;  // what that look went by
  double told = 0;               // tokens/s of the best plan that an event has named; 0: none has
};

using DeviceKey = std::pair<AgentId, std::int32_t>;

// What a job waits for beyond its records.
struct JobTimers {
  std::optional<Instant> gathered_at;    // min_replicas were there for the first time
  std::optional<Instant> returned_at;    // the first that was absent, of a job that waits
  std::optional<Instant> asked_at;       // absent ones that may hear it, of a stalled job
  std::optional<Instant> planned_at;     // a pipeline that waits for devices: the last plan
  std::optional<Instant> measures_due;   // when it waits no longer (profiling.h)
  std::vector<DeviceKey> blocks_asked;   //   for those that it has asked to measure a block,
  std::vector<AgentId> lines_asked;      //   and for the lines of these
  std::optional<Instant> short_since;    // fewer than min_replicas (core/priority.h)
  std::optional<Instant> claimed_at;     // its claim was decided, and
  std::optional<Instant> claim_good_at;  // found for the last time to give it what it lacks
  bool claims = false;  // devices that are free, or that jobs of lower priority give up, are for it
  std::optional<Instant> copied_at;     // a copy stands in for a stage that nobody serves
  RoundNumber balanced_round = 0;       // looked at after its outer step
  FlatMap<DeviceKey, Bytes> too_small;  // free devices it was told of, and their memory
  FlatMap<DeviceKey, double> left_out;  // devices it was told of, and the tokens/s with them
  std::vector<LeftOut> unused;          // the devices that the newest plan has left out
  FlatMap<AgentId, AllowedPrograms> not_run_by;       // agents it was told of, and what they allow
  FlatMap<ReduceIndex, ReduceTimers> reduces;         // of the round
  bool close_sent = false;                            // CloseRound of the open round
  FlatMap<ReplicaId, std::int32_t> nonfinite_rounds;  // in a row (rounds/nonfinite.h)
  std::string hopeless;      // why its round cannot be committed; empty: it may be
  std::string last_failure;  // of a replica that counted against the job
  std::optional<Instant> checkpoint_again_at;  // the last one could not be stored
  std::vector<PipelineMember> view;            // members of the last view that this process told
  RoundNumber view_round = -1;                 // committed when their lines were compared last
  FlatMap<DeviceKey, std::vector<LeftStage>> left;
  std::string balance_said;  // of whom move_refused was said last (replicas/moving.h)
  std::optional<PlacementReport::Look> look;  // the newest one at the balance of its stages
  std::optional<MoveReport> considered;       // the newest move that was considered
  std::optional<PlanComparison> compared;     // the newest look of plan_watch
  PlanWatch plan_watch;
  std::optional<Instant> placement_shown_at;
  std::optional<Instant> urgent_look_at;  // whether a stage is far behind, in an open round
  bool is_urgent = false;                 // it was, at the last look
  std::optional<Instant> wakeup_at;  // the earliest instant at which time alone changes something
};

// Replicas that hold rounds of a job which this database does not know (restoring.h).
struct Claim {
  AgentId agent;
  HeldReplica held;
};
struct Restoring {
  Instant since;              // the first claim
  std::vector<Claim> claims;  // proved by their signatures
  // Signed with a newer key of this cluster than those here: kept for the operator to bring it.
  std::vector<Claim> unproved;
};

using DeviceUuid = std::pair<AgentId, std::string>;

// A replica that takes the state from its peers (replicas/joining.h).
struct Joiner {
  std::vector<PeerAddress> sources;   // that it was told
  std::optional<Loaded> waiting;      // it holds the committed round, and cannot enter yet
  std::optional<Instant> near_since;  // it said for the first time that it has all
  JoinWatch watch;                    // of its load
  bool called_slow = false;           // an event has said so
};

// What a replica keeps of other stages (replicas/copies.h).
struct HostedCopies {
  KeepCopies told;  // over this connection
  std::vector<HeldCopy> held;
  bool heard = false;  // in this process
};

class RecordSigner;  // commit_proof.h

// What is true for this process only, and begins empty.
struct VolatileState {
  FlatMap<AgentId, Presence> presence;
  FlatMap<ConnectionId, AgentId> by_connection;
  FlatMap<JobId, JobTimers> timers;  // live jobs
  FlatMap<JobId, Restoring> restoring;
  std::int64_t claims_refused = 0;                // by check_proof(), in this process
  FlatMap<CheckpointId, CheckpointRecord> found;  // on disk, of jobs that are not known
  FlatMap<ReplicaId, SeenService> service;        // of pipelines, as they report
  FlatMap<ReplicaId, ComputeWatch> compute;       // of those that were heard
  FlatMap<ReplicaId, Movement> loads;             // that have moved
  // What the models of programs are made of, as their replicas said; equal ones are shared.
  FlatMap<ReplicaId, std::shared_ptr<const std::vector<TensorShape>>> tensors;
  FlatMap<ReplicaId, Joiner> joiners;
  FlatMap<ReplicaId, HostedCopies> copies;       // by the replica that keeps them
  FlatMap<ReplicaId, std::int32_t> copy_faults;  // by copy: loads from it that failed, in a row
  FlatMap<CheckpointId, Movement> stores;        // of checkpoints that are not stored yet
  FlatMap<DeviceKey, Instant> resting_until;     // after a failed replica
  FlatMap<DeviceKey, DeviceFailures> device_failures;
  FlatMap<DeviceUuid, DeviceFacts> device_facts;   // that their drivers said last
  FlatMap<DeviceUuid, ForeignLoad> foreign_loads;  // by what their drivers said
  FlatMap<ReplicaId, WatchedSpeed> speeds;         // of those that train
  FlatMap<DeviceKey, SlowDevice> slow_devices;     // of ended replicas, too
  FlatMap<DeviceKey, Digest>
      measuring;  // the shape that a device was asked to measure (profiling.h)
  LineQueue lines;
  FlatMap<std::pair<JobId, AgentId>, LoadRefusal> refusals;
  FlatMap<std::pair<JobId, AgentId>, SlowLine> slow_lines;
  std::vector<std::string> relays;             // that agents know (relays.h)
  FlatMap<CheckpointId, std::int32_t> doubts;  // loads in a row that found files damaged
  FlatMap<JobId, RecutRefusal> recuts_refused;
  std::optional<Instant> planned_at;  // a whole pipeline, of any job
  std::optional<Instant> next_lease_scan;
  std::optional<Instant> next_retention;  // when stored checkpoints are looked through again
  bool over_budget = false;               // an event has said so
  LostTime lost_time;
  Instant booted_at;
  Instant known_until;     // the newest time in the records that the process began with
  RecordKeys record_keys;  // none: nothing is signed, and no claim is believed
  std::shared_ptr<RecordSigner> signer;             // with the newest of them (use_record_keys())
  std::map<std::string, std::int64_t> transitions;  // "job queued gathering" -> how often
};

// Both, for rules to look things up in.
struct State : DurableState, VolatileState {
  Options options;
};

// Drops what the core does not keep in memory (see above) from a loaded snapshot.
State load_state(const Options& options, const Snapshot& snapshot);

// ---- look-ups

const RoundRecord* current_round(const State& state, const JobRecord& job);  // committed_round + 1
const RoundRecord* committed_round(const State& state, const JobRecord& job);
// A reducer (replicas/reducers.h) has no state and trains nothing: it is none of live_replicas(),
// in_sync_replicas() and round_replicas().
bool is_reducer(const State& state, const ReplicaRecord& replica);
// Absent ones are in none of these either, nor in with_assigned_data().
std::vector<ReplicaId> live_replicas(const State& state, JobId job);
std::vector<ReplicaId> absent_replicas(const State& state, JobId job);
std::vector<ReplicaId> live_reducers(const State& state, JobId job);
// It voted for what was committed, so it holds the new state or will in a moment.
bool can_follow(const State& state, const RoundKey& key, ReplicaId replica);
// Live replicas that hold the job's committed state or can follow to it, in the order of their ids.
std::vector<ReplicaId> in_sync_replicas(const State& state, const JobRecord& job);
std::vector<ReplicaId> in_sync_replicas(const State& state, const JobRecord& job, StageIndex stage);
// The units of every stage; empty before the model is cut.
std::vector<UnitRange> cut_of(const JobRecord& job);
bool anchors_known(const JobRecord& job);      // of every stage
StageIndex stage_count(const JobRecord& job);  // 0 before the plan is made
// The stage with the fewest in-sync replicas, the first one among equals.
struct StageCover {
  StageIndex stage = 0;
  std::int64_t in_sync = 0;
};
StageCover weakest_stage(const State& state, const JobRecord& job);
// FLOP/s of its device, by the same measure as the others of its job (blocks.h); 0: not known.
double speed_of(const State& state, ReplicaId replica);
std::vector<ReplicaId> round_replicas(const State& state,
                                      const RoundKey& key);  // with a contribution
// Live replicas that were told to train this round.
std::vector<ReplicaId> with_assigned_data(const State& state, const RoundKey& key);
inline const Reduce& reduce_of(const RoundRecord& r, const ContributionRecord& c) {
  return reduce_at(r, reduce_index(c));
}
bool is_live(const State& state, ReplicaId replica);     // it has not ended; it may be absent
bool is_present(const State& state, ReplicaId replica);  // live, and its agent is within reach
// Whether the agent is known by its session and has this protocol or a later one.
bool speaks(const State& state, AgentId agent, std::int32_t protocol);
// Absent replicas of this stage that hold the committed state of the job, or can follow to it.
std::vector<ReplicaId> absent_in_sync_replicas(const State& state, const JobRecord& job,
                                               StageIndex stage);
const JobRecord* live_job_by_name(const State& state, const std::string& name);

}  // namespace shoal::coordinator
