// What an observer of a simulated cluster is told: each struct is one thing that happened. Spans
// and references are valid during the call only.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "coordinator/core/state/io.h"
#include "messages/messages.h"
#include "outer_opt/core/step/fragments.h"
#include "outer_opt/core/step/momentum_shards.h"
#include "replica/core/outer_state.h"
#include "tests/sim/faults.h"

namespace shoal::sim {

// The effects of one step of the coordinator, numbered by steps of this process.
struct Emitted {
  std::int64_t step = 0;
  const coordinator::Effects& effects;
};

// A message that left the coordinator, and where it stood among the effects of its step.
struct Sent {
  std::int64_t step = 0;
  std::size_t index = 0;
  std::string host;  // of the agent
  const ToAgent& message;
};

// A replica holds the state of `key`: it has loaded it or taken the outer step.
struct StateHeld {
  ReplicaId replica;
  StageIndex stage = 0;
  RoundKey key;
  std::span<const float> anchor;
  replica::StateDigests digests;
  bool own = false;  // the anchor is its own (rounds in groups), not that of the whole stage
};

// A replica entered the reduce of a plan with this pseudo-gradient, empty for weight 0, and with
// sparse2 this encoding of it.
struct Contributed {
  ReplicaId replica;
  StageIndex stage = 0;
  const ReducePlan& plan;
  RoundKey base;
  Digest base_anchor;
  std::span<const float> pseudo_gradient;
  const JobSpec& spec;
  std::span<const std::byte> encoded;
  std::span<const float> momentum;  // of the own part, when it is sharded
  std::span<const float> sent;      // what enters the reduce; in groups made of it and the anchor
  std::span<const float> anchor;
};

// From now to the end of the round a replica sends something else than it reported, or averages its
// part falsely.
struct Lied {
  ReplicaId replica;
  RoundKey key;
  Fault how = Fault::kFalseNorm;
};

// A message between a joiner and a source of its state: it is sent, it is answered, or the answer
// is there.
struct StateMoved {
  ReplicaId joiner;
  std::string source;  // its address
};

// A replica gave a joiner other bytes than it should have.
struct GaveFalsely {
  ReplicaId replica;
};

// A round was committed without an average for this replica, whose group gave up; `counts`: what it
// trained still counts.
struct Stayed {
  ReplicaId replica;
  RoundKey key;
  bool counts = false;
  std::span<const float> anchor, local_before, local;
};

// A replica reported a boundary; `sequences` are those in its pseudo-gradient, in training order.
// Whole vectors, as they were there.
struct Reported {
  ReplicaId replica;
  const RoundReport& report;
  const std::vector<DataLease>& sequences;
  std::span<const float> anchor, local;
};

// A replica of a pipeline computes for an inner step with the newest view that it was told.
struct InnerStep {
  ReplicaId replica;
  const PipelineView& view;
};

// A replica of a pipeline added the gradient of a microbatch, which begins with this sequence, in
// the round that it trains, after so many aborts of it. `again`: it counts it as one that was sent
// again.
struct GradientAdded {
  ReplicaId replica;
  StageIndex stage = 0;
  RoundKey key;
  std::int32_t aborts = 0;
  swarm::Microbatch microbatch;
  std::int64_t first = 0;
  bool again = false;
};

// A trainer completed a reduce and votes with `digest`.
struct Averaged {
  ReplicaId replica;
  StageIndex stage = 0;
  RoundKey key;
  std::int32_t attempt = 0;
  Digest digest;
  std::span<const float> average;
};

// A member, maybe a reducer, completed a reduce and averaged its own part without these.
struct Excluded {
  ReplicaId owner;
  const ReducePlan& plan;
  const std::vector<ReplicaId>& members;
};

// `average` holds the values of the fragment, packed.
struct OuterStepped {
  ReplicaId replica;
  std::size_t members = 1;  // of the plan that averaged
  const CommitRound& commit;
  const JobSpec& spec;
  std::int32_t number = 0;  // of the fragment
  const outer_opt::Fragment& fragment;
  std::span<const float> average;
  const replica::OuterState &before, &after;
};

// A replica loaded these shards, or gathered them for a checkpoint from these holders: what none of
// them has is zero.
struct MomentumKept {
  ReplicaId replica;
  StageIndex stage = 0;
  RoundKey key;
  const outer_opt::MomentumShards& shards;
  const std::vector<MomentumHolder>* gathered_from = nullptr;  // null: loaded
};

// A replica took the outer step that the owners of a plan's parts made. Whole vectors.
struct MomentumFollowed {
  ReplicaId replica;
  StageIndex stage = 0;
  const ReducePlan& plan;
  std::span<const float> step, anchor_before, anchor;
  const outer_opt::MomentumShards& shards;
};

// A replica adopted the result of a round `ahead` steps after the boundary; `stopped`: because it
// was told to stop.
struct Adopted {
  ReplicaId replica;
  RoundKey key;
  const JobSpec& spec;
  Steps at, ahead;  // the next inner step of the schedule
  bool stopped = false;
  const outer_opt::Fragment& fragment;
  std::span<const float> anchor, local_before, local;
};

// With sync.eager: a replica begins the steps behind the boundary of a round that it reported.
// `number` is the fragment's; its pseudo-gradient is packed, the others are whole vectors.
struct EagerlyBegun {
  ReplicaId replica;
  RoundKey key;
  std::int32_t number = 0;
  const outer_opt::Fragment& fragment;
  std::span<const float> pseudo_gradient, anchor;
  const NamedVectors& vectors;
  std::span<const float> local_before, local;
};

// The round was aborted, and the replica takes its eager step back.
struct TakenBack {
  ReplicaId replica;
  std::span<const float> local_before, local;
};

// The service has the announced files of one stage of a checkpoint.
struct FilesStored {
  CheckpointId checkpoint;
  StageIndex stage = 0;
  RoundKey key;
  replica::StateDigests digests;
  std::vector<FileEntry> files;
};

}  // namespace shoal::sim
