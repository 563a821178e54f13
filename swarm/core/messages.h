// What coordinator and agents tell each other, as plain values; what an agent and its trainers say
// is in trainer_messages.h. The wire form is in proto/; proto/convert.h is the one place that knows
// both. Every message about a replica carries its id: a replica is one assignment and never
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
#include "base/job_spec.h"
#include "base/result.h"
#include "base/time.h"
#include "base/units.h"
#include "outer_opt/core/round/round.h"
#include "swarm/core/message_parts.h"
#include "swarm/core/pipeline.h"

namespace shoal {

// Raised when a message changes its meaning or gets a field or a word that the other side must
// know; both sides state theirs and the minimum they speak. 2: Release says "paused"; CommitRound
// and Assign say the step; TrainerReady says its protocol; frames may be entropy coded. 3: Hello
// says what each replica holds; commits and assignments carry a record; an order leases several
// runs.
inline constexpr std::int32_t kProtocolVersion = 3;
inline constexpr std::int32_t kProtocolVersionMin = 3;

// ---- agent -> coordinator

// A replica that runs, and the committed state that it holds.
struct HeldReplica {
  ReplicaId replica;
  std::uint64_t store = 0;  // Assign.store
  JobId job;
  StageIndex stage = 0;
  std::int32_t device = 0;
  RoundKey key;  // round -1: it still loads
  Digest anchor, momentum;
  std::int64_t value_count = 0;
  std::string address;
  std::vector<std::int64_t> fragments;  // as in Loaded
  CommitRecord record;                  // of `key`
  // As in Assign, for a database that does not know the job.
  std::vector<UnitRange> cut = {};
  JobSpec spec = {};  // without a name: not said
  bool operator==(const HeldReplica&) const = default;
};

struct Hello {
  std::string uid;          // 32 hex characters from the agent's data folder: who it is
  std::string name;         // for people; unique among live agents
  Incarnation incarnation;  // 0: a fresh start; else the one this process was given
  std::int32_t protocol = kProtocolVersion, protocol_min = kProtocolVersionMin;
  std::string version;  // software
  std::string host;     // where its trainers can be reached by peers
  std::vector<Device> devices;
  std::vector<std::pair<std::string, std::string>> labels;
  std::vector<HeldReplica> replicas;  // running now
  bool operator==(const Hello&) const = default;
};

struct Heartbeat {
  std::int64_t sequence = 0;
  Bytes resident;  // memory of agent and trainers
  bool operator==(const Heartbeat&) const = default;
};

struct DeviceMeasured {
  Device device;
  bool operator==(const DeviceMeasured&) const = default;
};

// The replica holds the state of `round` and its peers may dial `address`.
struct Loaded {
  ReplicaId replica;
  RoundKey key;  // of the state it holds
  Digest anchor, momentum;
  std::int64_t value_count = 0;
  std::string address;
  std::vector<std::int64_t> fragments = {};  // lengths, where the job has several
  Digest data = {};  // of the training data that it reads; zero: it reads none
  bool operator==(const Loaded&) const = default;
};

struct ReplicaFailed {
  ReplicaId replica;
  ReplicaFailure failure = ReplicaFailure::kInternal;
  std::string detail;
  bool operator==(const ReplicaFailed&) const = default;
};

// A replica that loads its state, about once a second while bytes arrive: a load fails when nothing
// has moved for a while, not when it takes long.
struct LoadProgress {
  ReplicaId replica;
  Bytes done, total;  // total 0: not known yet
  bool operator==(const LoadProgress&) const = default;
};

// About once a second while a replica trains. Numbers for people, but one: a step that has not
// moved for long tells a hung trainer.
struct Progress {
  ReplicaId replica;
  RoundKey key;
  Steps step;     // inner steps of the job's schedule done
  Tokens tokens;  // in this round
  double train_loss = 0, gradient_norm = 0, lr = 0, tokens_per_s = 0;
  bool operator==(const Progress&) const = default;
};

// Of a text that the model wrote, for people.
inline constexpr std::size_t kSampleBytesMax = 4096;

// The files of a checkpoint are complete on the agent and hashed; the upload follows.
struct CheckpointWritten {
  ReplicaId replica;
  CheckpointId checkpoint;
  RoundKey key;
  std::vector<FileEntry> files;
  std::string sample;  // UTF-8, may be empty; of the writer of stage 0
  bool operator==(const CheckpointWritten&) const = default;
};

struct CheckpointFailed {
  ReplicaId replica;
  CheckpointId checkpoint;
  std::string detail;
  bool operator==(const CheckpointFailed&) const = default;
};

struct Goodbye {
  std::string reason;
  bool operator==(const Goodbye&) const = default;
};

template <typename Body>
struct FromReplica {  // a round message and the replica that says it
  ReplicaId replica;
  Body body;
  bool operator==(const FromReplica&) const = default;
};

using FromAgent =
    std::variant<Heartbeat, DeviceMeasured, LoadProgress, Loaded, ReplicaFailed, Progress,
                 PipelineStats, FromReplica<RoundReport>, FromReplica<Vote>,
                 FromReplica<ReduceFailed>, FromReplica<Applied>, FromReplica<Evaluated>,
                 CheckpointWritten, CheckpointFailed, Goodbye>;

// ---- coordinator -> agent

struct Welcome {
  AgentId agent;
  Incarnation incarnation;
  Duration heartbeat_every, lease;
  std::vector<ReplicaId>
      keep;  // replicas of Hello that are still wanted; the others are to be stopped
  bool operator==(const Welcome&) const = default;
};

// The session is refused for good; the agent says so and exits.
struct Refused {
  Error error;
  bool operator==(const Refused&) const = default;
};

struct Assign {
  ReplicaId replica;
  JobId job;
  std::int32_t device = 0;
  StageIndex stage = 0;
  std::vector<UnitRange> cut;  // of all stages; fixed for the life of the job
  JobSpec spec;
  StateSource source;
  CommitRecord record;      // of the state of `source`
  std::uint64_t store = 0;  // which start of which database gave the replica its id
  bool operator==(const Assign&) const = default;
};

enum class ReleaseReason { kCompleted, kCancelled, kJobFailed, kReplaced, kDraining, kPaused };
constexpr auto words_of(Of<ReleaseReason>) {
  using enum ReleaseReason;
  return words<ReleaseReason>({{kCompleted, "completed"},
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

// Evaluate the anchor of `key` on a share of the held-out batches, at the next inner step boundary.
struct Evaluate {
  RoundKey key;
  EvalSlice slice;
  bool operator==(const Evaluate&) const = default;
};

struct WriteCheckpoint {
  CheckpointId checkpoint;
  RoundKey key;                               // the replica must hold exactly this state
  std::vector<MomentumHolder> momentum = {};  // sync.outer_state = sharded: who keeps what of it
  bool operator==(const WriteCheckpoint&) const = default;
};

// The checkpoint is stored by the coordinator (or no longer wanted): local files may go.
struct ForgetCheckpoint {
  CheckpointId checkpoint;
  bool operator==(const ForgetCheckpoint&) const = default;
};

template <typename Body>
struct ToReplica {
  ReplicaId replica;
  Body body;
  bool operator==(const ToReplica&) const = default;
};

using ToAgent = std::variant<Welcome, Refused, Assign, Release, ToReplica<PipelineView>,
                             ToReplica<OpenRound>, ToReplica<CloseRound>, ToReplica<ReducePlan>,
                             ToReplica<CommitRound>, ToReplica<AbortRound>, ToReplica<ResumeAt>,
                             ToReplica<Evaluate>, ToReplica<WriteCheckpoint>, ForgetCheckpoint>;

}  // namespace shoal
