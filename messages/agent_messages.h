// What an agent tells the coordinator, for itself and for its replicas: one struct per message.
// messages.h has the rest, and which of them there are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "job/job_spec.h"
#include "job/program_rules.h"
#include "messages/message_parts.h"
#include "messages/refusals.h"
#include "messages/tensor_shape.h"
#include "outer_opt/core/round/round.h"

namespace shoal {

// Raised when a message changes its meaning or gets a field or a word that the other side must
// know; both sides state theirs and the minimum they speak. 5: records carry a proof, which
// KeepRecord renews; a checkpoint names its files, their roles and its anchor. 6: devices have
// UUIDs, and heartbeats say what the driver reports of them; a view tells what the lines of its
// members take; link estimates tell what was measured since the last report. 7: the coordinator
// measures the lines of hosts, and a checkpoint can be loaded on another cut. 8: no names in specs.
inline constexpr std::int32_t kProtocolVersion = 8;
inline constexpr std::int32_t kProtocolVersionMin = 4;

// Copies of stages that one replica keeps, at most.
inline constexpr std::size_t kCopiesMax = 64;

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
  JobSpec spec = {};  // the default one: not said
  bool operator==(const HeldReplica&) const = default;
};
constexpr auto fields_of(Of<HeldReplica>) {
  using T = HeldReplica;
  return fields(field<&T::replica>(), field<&T::store>(), field<&T::job>(), field<&T::stage>(),
                field<&T::device>(), field<&T::key>(or_none()), field<&T::anchor>(or_none()),
                field<&T::momentum>(or_none()), field<&T::value_count>(), field<&T::address>(),
                field<&T::fragments>(), field<&T::record>(or_none()), field<&T::cut>(),
                field<&T::spec>(or_none()));
}

// Owners whose code one agent runs, at most.
inline constexpr std::size_t kCodeOwnersMax = 64;

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
  std::string relay = {};             // host:port, when this agent relays (docs/relays.md)
  bool hears_relays = false;          // it understands Relays
  // Jobs with trainer.kind = "python": those beneath its --trainer-root, and the code that these
  // owners have uploaded ("*": anybody).
  bool runs_programs = false;
  std::vector<std::string> code_from = {};
  ProgramLimits program_limits = ProgramLimits::kNone;
  bool operator==(const Hello&) const = default;
};
constexpr auto fields_of(Of<Hello>) {
  using T = Hello;
  return fields(field<&T::uid>(), field<&T::name>(), field<&T::incarnation>(),
                field<&T::protocol>(), field<&T::protocol_min>(), field<&T::version>(),
                field<&T::host>(), field<&T::devices>(), field<&T::labels>(), field<&T::replicas>(),
                field<&T::relay>(), field<&T::hears_relays>(), field<&T::runs_programs>(),
                field<&T::code_from>(at_most(kCodeOwnersMax)),
                field<&T::program_limits>(or_none()));
}

struct Heartbeat {
  std::int64_t sequence = 0;
  Bytes resident;  // memory of agent and trainers
  // By the ports of its trainers since the agent began.
  std::vector<RefusalCount> refusals = {};
  std::optional<RelayFigures> relay = {};    // of an agent that relays
  std::vector<DeviceFailure> failures = {};  // none for a device that trains, or may soon
  std::vector<DeviceSample> samples = {};    // of the devices of which something changed
  bool operator==(const Heartbeat&) const = default;
};
constexpr auto fields_of(Of<Heartbeat>) {
  using T = Heartbeat;
  return fields(field<&T::sequence>(), field<&T::resident>("resident_bytes"),
                field<&T::refusals>(at_most(kRefusalReasonsMax)), field<&T::relay>(),
                field<&T::failures>(at_most(kDevicesMax)),
                field<&T::samples>(at_most(kDevicesMax)));
}

struct DeviceMeasured {
  Device device;
  bool operator==(const DeviceMeasured&) const = default;
};
constexpr auto fields_of(Of<DeviceMeasured>) {
  using T = DeviceMeasured;
  return fields(field<&T::device>(flat()));
}

// The replica holds the state of `round` and its peers may dial `address`.
struct Loaded {
  ReplicaId replica;
  RoundKey key;  // of the state it holds
  Digest anchor, momentum;
  std::int64_t value_count = 0;
  std::string address;
  std::vector<std::int64_t> fragments = {};  // lengths, where the job has several
  Digest data = {};                     // of the training data that it reads; zero: it reads none
  std::vector<ReplicaId> refused = {};  // sources that gave it other bytes than this state's
  bool operator==(const Loaded&) const = default;
};
constexpr auto fields_of(Of<Loaded>) {
  using T = Loaded;
  return fields<&T::replica, &T::key, &T::anchor, &T::momentum, &T::value_count, &T::address,
                &T::fragments, &T::data, &T::refused>();
}

struct ReplicaFailed {
  ReplicaId replica;
  ReplicaFailure failure = ReplicaFailure::kInternal;
  std::string detail;
  bool operator==(const ReplicaFailed&) const = default;
};
constexpr auto fields_of(Of<ReplicaFailed>) {
  using T = ReplicaFailed;
  return fields<&T::replica, &T::failure, &T::detail>();
}

// A replica that loads its state, about once a second while bytes arrive: a load fails when nothing
// has moved for a while, not when it takes long.
struct LoadProgress {
  ReplicaId replica;
  Bytes done, total;  // total 0: not known yet
  // For a joiner: the bytes received so far, state and averages, as they traveled; and the bytes
  // that the averages of one round take for the whole state (0: none has arrived yet).
  Bytes received = {}, per_round = {};
  // In the first one of a program's replica, before a byte has arrived: what its model is made of,
  // in the order in which the values travel. Empty: more than kTensorsMax, or not said.
  std::vector<TensorShape> tensors = {};
  bool operator==(const LoadProgress&) const = default;
};
constexpr auto fields_of(Of<LoadProgress>) {
  using T = LoadProgress;
  return fields(field<&T::replica>(), field<&T::done>("done_bytes"),
                field<&T::total>("total_bytes"), field<&T::received>("received_bytes"),
                field<&T::per_round>("per_round_bytes"), field<&T::tensors>(at_most(kTensorsMax)));
}

// A number that a user's program measured at an inner step (`run.log` of the Python package).
struct LoggedValue {
  std::string name;  // letters, digits and . _ - /
  Steps step;        // of the job's schedule
  double value = 0;
  bool operator==(const LoggedValue&) const = default;
};
constexpr auto fields_of(Of<LoggedValue>) {
  using T = LoggedValue;
  return fields(field<&T::name>(), field<&T::step>(), field<&T::value>(any_number()));
}

inline constexpr std::size_t kLoggedValuesMax = 64;  // names of one replica
inline constexpr std::size_t kLoggedNameBytesMax = 64;
inline constexpr const char* kLoggedNameRule = "must have 1 to 64 letters, digits and . _ - /";
constexpr bool is_logged_name(std::string_view name) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/";
  return !name.empty() && name.size() <= kLoggedNameBytesMax &&
         name.find_first_not_of(kAllowed) == std::string_view::npos;
}

// About once a second while a replica trains. Numbers for people, but one: a step that has not
// moved for long tells a hung trainer.
struct Progress {
  ReplicaId replica;
  RoundKey key;
  Steps step;     // inner steps of the job's schedule done
  Tokens tokens;  // in this round
  double train_loss = 0, gradient_norm = 0, lr = 0, tokens_per_s = 0;
  std::vector<LoggedValue> logged = {};  // since the last one, of each name the newest
  bool operator==(const Progress&) const = default;
};
constexpr auto fields_of(Of<Progress>) {
  using T = Progress;
  return fields(field<&T::replica>(), field<&T::key>(), field<&T::step>(), field<&T::tokens>(),
                field<&T::train_loss>(any_number()), field<&T::gradient_norm>(any_number()),
                field<&T::lr>(any_number()), field<&T::tokens_per_s>(any_number()),
                field<&T::logged>(at_most(kLoggedValuesMax)));
}

// Limit of a text by the model, for people.
inline constexpr std::size_t kSampleBytesMax = 4096;

// The files of a checkpoint are complete on the agent and hashed; the upload follows.
struct CheckpointWritten {
  ReplicaId replica;
  CheckpointId checkpoint;
  RoundKey key;
  std::vector<FileEntry> files;
  std::string sample;  // UTF-8, may be empty; of the writer of stage 0
  Digest anchor = {};  // that the weights are of, as the writer says; zero: of protocol 4
  bool operator==(const CheckpointWritten&) const = default;
};
constexpr auto fields_of(Of<CheckpointWritten>) {
  using T = CheckpointWritten;
  return fields(field<&T::replica>(), field<&T::checkpoint>(), field<&T::key>(),
                field<&T::files>(at_most(kCheckpointFilesMax)),
                field<&T::sample>(at_most(kSampleBytesMax)), field<&T::anchor>());
}

struct CheckpointFailed {
  ReplicaId replica;
  CheckpointId checkpoint;
  std::string detail;
  bool operator==(const CheckpointFailed&) const = default;
};
constexpr auto fields_of(Of<CheckpointFailed>) {
  using T = CheckpointFailed;
  return fields<&T::replica, &T::checkpoint, &T::detail>();
}

// A copy of a stage (KeepCopies), and the newest committed state of it that is whole.
struct HeldCopy {
  ReplicaId copy;
  RoundKey key;
  Digest anchor, momentum;
  bool operator==(const HeldCopy&) const = default;
};
constexpr auto fields_of(Of<HeldCopy>) {
  using T = HeldCopy;
  return fields<&T::copy, &T::key, &T::anchor, &T::momentum>();
}

// All copies of the replica that hold something: after each KeepCopies, and when that has changed.
struct CopiesHeld {
  std::vector<HeldCopy> copies;
  bool operator==(const CopiesHeld&) const = default;
};
constexpr auto fields_of(Of<CopiesHeld>) {
  using T = CopiesHeld;
  return fields(field<&T::copies>(at_most(kCopiesMax)));
}

struct Goodbye {
  std::string reason;
  bool operator==(const Goodbye&) const = default;
};
constexpr auto fields_of(Of<Goodbye>) {
  using T = Goodbye;
  return fields<&T::reason>();
}

}  // namespace shoal
