// What an agent and its trainers tell each other, as plain values: the messages of messages.h that
// are passed on to the coordinator or come from it, and those that stay on the host. The wire form
// is proto/trainer.proto.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "messages/messages.h"
#include "messages/refusals.h"

namespace shoal {

struct TrainerReady {
  std::int32_t slot = 0;                     // which of the agent's trainers it is, as it was told
  Device device;                             // as libtorch sees it, with the measured speed
  std::string peer_address;                  // host:port of its peer service
  std::string libraries;                     // "libtorch 1.13.1, BLAS OpenBLAS 0.3.21, 1 thread"
  std::int32_t protocol = kProtocolVersion;  // a trainer of another one is not used
  std::optional<Assign> holds = {};  // attached again: what it works on, which Loaded follows
  bool hears_relays = false;         // it understands Relays
  bool operator==(const TrainerReady&) const = default;
};
constexpr auto fields_of(Of<TrainerReady>) {
  using T = TrainerReady;
  return fields<&T::slot, &T::device, &T::peer_address, &T::libraries, &T::protocol, &T::holds,
                &T::hears_relays>();
}

// Files of a checkpoint are in the folder the command named; the agent hashes and uploads them.
struct CheckpointReady {
  ReplicaId replica;
  CheckpointId checkpoint;
  RoundKey key;
  std::string sample;  // see CheckpointWritten
  // Names, sizes and SHA-256, computed while the files were written, with the anchor that the
  // weights are of. Empty: of a trainer of protocol 4.
  std::vector<FileEntry> files = {};
  Digest anchor = {};
  bool operator==(const CheckpointReady&) const = default;
};
constexpr auto fields_of(Of<CheckpointReady>) {
  using T = CheckpointReady;
  return fields(field<&T::replica>(), field<&T::checkpoint>(), field<&T::key>(),
                field<&T::sample>(at_most(kSampleBytesMax)),
                field<&T::files>(at_most(kCheckpointFilesMax)), field<&T::anchor>());
}

// How many its port has turned away since it began; said when that has changed.
struct PortRefusals {
  std::vector<RefusalCount> refusals;
  bool operator==(const PortRefusals&) const = default;
};
constexpr auto fields_of(Of<PortRefusals>) {
  using T = PortRefusals;
  return fields(field<&T::refusals>(at_most(kRefusalReasonsMax)));
}

using FromTrainer =
    std::variant<TrainerReady, LoadProgress, Loaded, ReplicaFailed, Progress, PipelineStats,
                 PortRefusals, FromReplica<RoundReport>, FromReplica<Vote>,
                 FromReplica<ReduceFailed>, FromReplica<Applied>, FromReplica<Evaluated>,
                 FromReplica<CopiesHeld>, CheckpointReady, CheckpointFailed, BlockMeasured>;

// An Assign whose files the agent has already fetched.
struct LoadReplica {
  Assign assign;
  std::string checkpoint_folder;  // set when assign.source.kind == kCheckpoint
  bool operator==(const LoadReplica&) const = default;
};
constexpr auto fields_of(Of<LoadReplica>) {
  using T = LoadReplica;
  return fields<&T::assign, &T::checkpoint_folder>();
}

struct WriteCheckpointTo {
  ReplicaId replica;
  WriteCheckpoint command;
  std::string folder;
  bool operator==(const WriteCheckpointTo&) const = default;
};
constexpr auto fields_of(Of<WriteCheckpointTo>) {
  using T = WriteCheckpointTo;
  return fields<&T::replica, &T::command, &T::folder>();
}

struct StopTrainer {
  bool operator==(const StopTrainer&) const = default;
};

using ToTrainer = std::variant<LoadReplica, Release, ToReplica<PipelineView>, ToReplica<OpenRound>,
                               ToReplica<CloseRound>, ToReplica<ReducePlan>, ToReplica<CommitRound>,
                               ToReplica<AbortRound>, ToReplica<ResumeAt>, ToReplica<Evaluate>,
                               ToReplica<KeepCopies>, WriteCheckpointTo, StopTrainer, Relays,
                               ToReplica<KeepRecord>, MeasureBlock>;

}  // namespace shoal
