// What coordinator and agents tell each other, as plain values; what an agent and its trainers say
// is in trainer_messages.h. The wire form is in proto/, which goes over the lists of fields below
// the structs. Every message about a replica carries its id: a replica is one assignment and never
// changes, so an id that the receiver does not know is from the past.
//
// Delivery: messages may be lost with their stream and are sent again after a reconnect; every one
// of them may therefore arrive twice, and the receivers treat the second as a no-op.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "base/units.h"
#include "job/job_spec.h"
#include "messages/agent_messages.h"
#include "messages/block_times.h"
#include "messages/line_probe.h"
#include "messages/message_parts.h"
#include "messages/pipeline.h"
#include "outer_opt/core/round/round.h"

namespace shoal {

template <typename Body>
struct FromReplica {  // a round message and the replica that says it
  ReplicaId replica;
  Body body;
  bool operator==(const FromReplica&) const = default;
  friend constexpr auto fields_of(Of<FromReplica>) {
    return fields<&FromReplica::replica, &FromReplica::body>();
  }
};

using FromAgent =
    std::variant<Heartbeat, DeviceMeasured, BlockMeasured, LineMeasured, LoadProgress, Loaded,
                 ReplicaFailed, Progress, PipelineStats, FromReplica<RoundReport>,
                 FromReplica<Vote>, FromReplica<ReduceFailed>, FromReplica<Applied>,
                 FromReplica<Evaluated>, FromReplica<CopiesHeld>, CheckpointWritten,
                 CheckpointFailed, Goodbye>;

// ---- coordinator -> agent

struct Welcome {
  AgentId agent;
  Incarnation incarnation;
  Duration heartbeat_every, lease;
  std::vector<ReplicaId>
      keep;  // replicas of Hello that are still wanted; the others are to be stopped
  std::vector<std::string> relays = {};  // as in Relays
  bool operator==(const Welcome&) const = default;
};
constexpr auto fields_of(Of<Welcome>) {
  using T = Welcome;
  return fields(field<&T::agent>(), field<&T::incarnation>(), field<&T::heartbeat_every>(),
                field<&T::lease>(), field<&T::keep>(), field<&T::relays>(at_most(kRelaysMax)));
}

// The session is refused for good; the agent says so and exits.
struct Refused {
  Error error;
  bool operator==(const Refused&) const = default;
};
constexpr auto fields_of(Of<Refused>) {
  using T = Refused;
  return fields(field<&T::error>(flat()));
}

// The first protocol whose agents and trainers load a checkpoint of another cut.
inline constexpr std::int32_t kFirstWithOtherCuts = 7;

// The first protocol whose agents know KeepRecord.
inline constexpr std::int32_t kFirstWithKeepRecord = 5;

// The first protocol whose agents accept a spec without a name.
inline constexpr std::int32_t kFirstWithoutNames = 8;

struct Assign {
  ReplicaId replica;
  JobId job;
  std::int32_t device = 0;
  StageIndex stage = 0;
  std::vector<UnitRange> cut;  // of all stages; fixed for the life of the replica
  JobSpec spec;                // for_agents(); for an agent before protocol 8 with its name
  StateSource source;
  CommitRecord record;               // of the state of `source`
  std::uint64_t store = 0;           // which start of which database gave the replica its id
  std::vector<PeerAddress> sources;  // kPeer: all that have the state; none: nobody has it any more
  std::string owner = {};            // of the job; empty: not known
  // The parts of a checkpoint of another cut that have units of this stage, from the first on. 0
  // parts: the checkpoint has the cut of the job, and the replica loads the part of its stage.
  StageIndex checkpoint_first = 0;
  std::int32_t checkpoint_parts = 0;
  bool operator==(const Assign&) const = default;
};
constexpr auto fields_of(Of<Assign>) {
  using T = Assign;
  return fields<&T::replica, &T::job, &T::device, &T::stage, &T::cut, &T::spec, &T::source,
                &T::record, &T::store, &T::sources, &T::owner, &T::checkpoint_first,
                &T::checkpoint_parts>();
}

// The name of the job, for people: that of the spec, or of the signed record, or its number.
inline std::string job_name(const Assign& message) {
  if (!message.spec.name.empty()) return message.spec.name;
  const std::string& name = message.record.proof.job_name;
  return name.empty() ? "job-" + std::to_string(message.job.n) : name;
}

enum class ReleaseReason { kCompleted, kCancelled, kJobFailed, kReplaced, kDraining, kPaused };
constexpr auto enumerators_of(Of<ReleaseReason>) {
  using enum ReleaseReason;
  return enumerators<ReleaseReason>({{kCompleted, "completed"},
                                     {kCancelled, "cancelled"},
                                     {kJobFailed, "job_failed"},
                                     {kReplaced, "replaced"},
                                     {kDraining, "draining"},
                                     {kPaused, "paused"}});
}

struct Release {
  ReplicaId replica;
  ReleaseReason reason = ReleaseReason::kReplaced;
  bool operator==(const Release&) const = default;
};
constexpr auto fields_of(Of<Release>) {
  using T = Release;
  return fields<&T::replica, &T::reason>();
}

// Evaluate the anchor of `key` on a share of the held-out batches, at the next inner step boundary.
struct Evaluate {
  RoundKey key;
  EvalSlice slice;
  bool operator==(const Evaluate&) const = default;
};
constexpr auto fields_of(Of<Evaluate>) {
  using T = Evaluate;
  return fields<&T::key, &T::slice>();
}

struct WriteCheckpoint {
  CheckpointId checkpoint;
  RoundKey key;                               // the replica must hold exactly this state
  std::vector<MomentumHolder> momentum = {};  // sync.outer_state = sharded: who keeps what of it
  bool operator==(const WriteCheckpoint&) const = default;
};
constexpr auto fields_of(Of<WriteCheckpoint>) {
  using T = WriteCheckpoint;
  return fields<&T::checkpoint, &T::key, &T::momentum>();
}

// The checkpoint is stored by the coordinator (or no longer wanted): local files may go.
struct ForgetCheckpoint {
  CheckpointId checkpoint;
  bool operator==(const ForgetCheckpoint&) const = default;
};
constexpr auto fields_of(Of<ForgetCheckpoint>) {
  using T = ForgetCheckpoint;
  return fields<&T::checkpoint>();
}

// A copy of the outer state of another stage of the job, which a replica keeps in its host's memory
// (checkpoint.buddies).
struct StageCopy {
  ReplicaId copy;  // by which joiners ask for it; no replica has this id
  StageIndex stage = 0;
  std::int64_t value_count = 0;
  RoundKey key;  // the newest committed round, and its digests
  Digest anchor, momentum;
  std::vector<PeerAddress> sources;  // who has it; none: what is held is all there is
  bool operator==(const StageCopy&) const = default;
};
constexpr auto fields_of(Of<StageCopy>) {
  using T = StageCopy;
  return fields<&T::copy, &T::stage, &T::value_count, &T::key, &T::anchor, &T::momentum,
                &T::sources>();
}

// All copies that the replica is to keep: a new one is fetched, a known one follows to the round
// that is named, one that is not named is dropped. CopiesHeld answers.
struct KeepCopies {
  std::vector<StageCopy> copies;
  bool operator==(const KeepCopies&) const = default;
};
constexpr auto fields_of(Of<KeepCopies>) {
  using T = KeepCopies;
  return fields(field<&T::copies>(at_most(kCopiesMax)));
}

template <typename Body>
struct ToReplica {
  ReplicaId replica;
  Body body;
  bool operator==(const ToReplica&) const = default;
  friend constexpr auto fields_of(Of<ToReplica>) {
    return fields<&ToReplica::replica, &ToReplica::body>();
  }
};

using ToAgent =
    std::variant<Welcome, Refused, Assign, Release, ToReplica<PipelineView>, ToReplica<OpenRound>,
                 ToReplica<CloseRound>, ToReplica<ReducePlan>, ToReplica<CommitRound>,
                 ToReplica<AbortRound>, ToReplica<ResumeAt>, ToReplica<Evaluate>,
                 ToReplica<WriteCheckpoint>, ToReplica<KeepCopies>, ForgetCheckpoint, Relays,
                 ToReplica<KeepRecord>, MeasureBlock, MeasureLine>;

// What a message says, apart from whom it is addressed to.
template <typename T>
struct BodyOf {
  using Type = T;
};
template <typename Body>
struct BodyOf<FromReplica<Body>> {
  using Type = Body;
};
template <typename Body>
struct BodyOf<ToReplica<Body>> {
  using Type = Body;
};

}  // namespace shoal
