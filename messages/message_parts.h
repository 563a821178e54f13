// The parts of messages that the coordinator keeps in its records: files, why a replica
// failed, where one gets its state from. Each has its list of fields (base/fields.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/fields.h"
#include "base/ids.h"
#include "base/units.h"
#include "messages/device.h"
#include "outer_opt/core/round/round_parts.h"

namespace shoal {

enum class ReplicaFailure {
  kTrainerExited,  // process ended: signal or exit code in the detail
  kOutOfMemory,
  kDeviceLost,
  kNonFiniteLoss,
  kDataMissing,  // the user's file is not there or too short
  kDataInvalid,  // e.g. a token at or above the vocabulary
  kModelDoesNotFit,
  kSourceLost,  // the state could not be fetched
  kDigestMismatch,
  kStale,  // it cannot follow: it missed a commit
  kAgentLost,
  kAgentRestarted,
  kPeerUnreachable,  // it lives, but others could not exchange parts with it
  kUnresponsive,     // it did not answer in time
  kInternal,
  kTooSlow,  // its line cannot carry the rounds, or it came no further
};
constexpr auto enumerators_of(Of<ReplicaFailure>) {
  using enum ReplicaFailure;
  return enumerators<ReplicaFailure>({{kTrainerExited, "trainer_exited"},
                                      {kOutOfMemory, "out_of_memory"},
                                      {kDeviceLost, "device_lost"},
                                      {kNonFiniteLoss, "non_finite_loss"},
                                      {kDataMissing, "data_missing"},
                                      {kDataInvalid, "data_invalid"},
                                      {kModelDoesNotFit, "model_does_not_fit"},
                                      {kSourceLost, "source_lost"},
                                      {kDigestMismatch, "digest_mismatch"},
                                      {kStale, "stale"},
                                      {kAgentLost, "agent_lost"},
                                      {kAgentRestarted, "agent_restarted"},
                                      {kPeerUnreachable, "peer_unreachable"},
                                      {kUnresponsive, "unresponsive"},
                                      {kInternal, "internal"},
                                      {kTooSlow, "too_slow"}});
}

// Why a device trains nothing: its trainer does not start. In the words of the trainer.
struct DeviceFailure {
  std::int32_t device = 0;
  std::string reason;
  bool operator==(const DeviceFailure&) const = default;
};
constexpr auto fields_of(Of<DeviceFailure>) {
  using T = DeviceFailure;
  return fields<&T::device, &T::reason>();
}

// What a relay of an agent does (wire/relay/relay.h): now, and since it started.
struct RelayFigures {
  std::int64_t waiting = 0, joined = 0;  // now
  std::int64_t joined_total = 0;
  Bytes carried;                                        // both ways together
  std::int64_t refused_identity = 0, refused_asks = 0;  // not who they say; quotas, nobody there
  std::int64_t refused_handshakes = 0;                  // too many, too slow, no words
  bool operator==(const RelayFigures&) const = default;
};
constexpr auto fields_of(Of<RelayFigures>) {
  using T = RelayFigures;
  return fields(field<&T::waiting>(), field<&T::joined>(), field<&T::joined_total>(),
                field<&T::carried>("carried_bytes"), field<&T::refused_identity>(),
                field<&T::refused_asks>(), field<&T::refused_handshakes>());
}

// The relays of the cluster that live (docs/relays.md), in place of those told before.
inline constexpr std::size_t kRelaysMax = 64;
struct Relays {
  std::vector<std::string> addresses;  // host:port
  bool operator==(const Relays&) const = default;
};
constexpr auto fields_of(Of<Relays>) {
  using T = Relays;
  return fields(field<&T::addresses>(at_most(kRelaysMax)));
}

inline constexpr std::size_t kFileRoleBytesMax = 1100;       // "file/PATH"
inline constexpr std::size_t kCheckpointFilesMax = 100'000;  // of one part
struct FileEntry {
  std::string path;  // relative, no "..", no leading '/'
  Bytes size;
  std::string sha256;  // 64 hex characters
  // What the file is in a checkpoint: "weights", "outer/NAME", … (docs/checkpoints.md); empty: not
  // said, as by versions before 0.2.
  std::string role = {};
  bool operator==(const FileEntry&) const = default;
};
constexpr auto fields_of(Of<FileEntry>) {
  using T = FileEntry;
  return fields(field<&T::path>(), field<&T::size>(), field<&T::sha256>(),
                field<&T::role>(added_later() | at_most(kFileRoleBytesMax)));
}

enum class SourceKind { kSeed, kPeer, kCheckpoint };
constexpr auto enumerators_of(Of<SourceKind>) {
  using enum SourceKind;
  return enumerators<SourceKind>({{kSeed, "seed"}, {kPeer, "peer"}, {kCheckpoint, "checkpoint"}});
}

// Where a replica gets its state from. The digests are zero for kSeed before anybody loaded.
struct StateSource {
  SourceKind kind = SourceKind::kSeed;
  RoundKey key;             // the state to hold after loading
  std::string address;      // kPeer
  ReplicaId replica;        // kPeer
  CheckpointId checkpoint;  // kCheckpoint
  Digest anchor, momentum;
  bool operator==(const StateSource&) const = default;
};
constexpr auto fields_of(Of<StateSource>) {
  using T = StateSource;
  return fields(field<&T::kind>(), field<&T::key>(flat()), field<&T::address>(),
                field<&T::replica>(or_none()), field<&T::checkpoint>(or_none()),
                field<&T::anchor>(), field<&T::momentum>());
}

}  // namespace shoal
