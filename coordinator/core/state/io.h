// What goes into the coordinator's core and what comes out of it.
//
// Effects are ordered: a driver makes every Persist durable before it performs any later effect.
// The production driver (coordinator/service/runtime.h) and the simulator (tests/sim) both obey
// this.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/field_error.h"
#include "base/result.h"
#include "coordinator/core/decisions/placement.h"
#include "coordinator/core/decisions/placement_report.h"
#include "coordinator/core/records/access.h"
#include "coordinator/core/records/records.h"
#include "coordinator/core/state/record_keys.h"
#include "messages/messages.h"

namespace shoal::coordinator {

// One open stream of an agent, numbered by the driver, never used twice within a process.
struct ConnectionId {
  std::uint64_t n = 0;
  auto operator<=>(const ConnectionId&) const = default;
};

// One caller waiting for an answer, numbered by the driver.
struct RequestId {
  std::uint64_t n = 0;
  auto operator<=>(const RequestId&) const = default;
};

// ---- inputs

// First input after the snapshot was loaded.
struct Booted {
  std::uint64_t store = 0;  // drawn at random by the driver, never 0: CounterRecord.store
  // Checkpoints as an earlier process stored them, whose files are whole, where the tables do not
  // know that: they are older than the files.
  std::vector<CheckpointRecord> found = {};
  RecordKeys record_keys = {};  // state/commit_proof.h
};
struct RecordKeysChanged {  // one was added, or an old one retired
  RecordKeys record_keys;
};
struct AgentHello {  // its certificate was already checked
  ConnectionId connection;
  Hello hello;
  AgentId machine = {};  // who that says it is; none where nobody asked: the core gives an id
};
struct AgentSaid {
  ConnectionId connection;
  FromAgent message;
};
struct AgentHungUp {
  ConnectionId connection;
};
// Answers MeasureHostLine.
struct HostLineMeasured {
  ConnectionId connection;
  HostLine line;  // without its time
};
struct SubmitJob {
  RequestId request;
  JobSpec spec;
  bool dry_run = false;
  SubmittedText submitted = {};  // without its job; an empty text is not kept
  std::string owner = {};
  std::int64_t lease_unit = 0;      // of JobRecord
  Reach checkpoints = Reach::kOwn;  // of the owner, as its token allows
};
struct CancelJob {
  RequestId request;
  JobId job;
};
struct PauseJob {
  RequestId request;
  JobId job;
};
struct ResumeJob {
  RequestId request;
  JobId job;
  ObjectUser by = {};
};
// What may be changed of a job that has not ended; at least one is given.
struct ChangeJob {
  RequestId request;
  JobId job;
  std::optional<double> outer_lr = {};
  std::optional<std::int64_t> priority = {};
};
// kRevoked: its certificate is no longer accepted, which service/machines/ sees to; here it is an
// event.
enum class AgentVerb { kCordon, kUncordon, kDrain, kForget, kRevoked };
// Answered like a job's command; a good answer carries no job.
struct CommandAgent {
  RequestId request;
  AgentId agent;
  AgentVerb verb = AgentVerb::kCordon;
};
// kVerified: every file was compared with its record, and the anchor with the weights.
enum class CheckpointVerb { kPin, kUnpin, kRemove, kVerified };
// A good answer carries the job of the checkpoint.
struct CommandCheckpoint {
  RequestId request;
  CheckpointRecord checkpoint;  // as the store has it; what the core knows of it comes first
  CheckpointVerb verb = CheckpointVerb::kPin;
  bool force = false;  // kRemove: even if it is needed
};
// An ended job, with its checkpoints and its history.
struct RemoveJob {
  RequestId request;
  JobId job;
  std::vector<CheckpointRecord> aside = {};  // damaged ones of it, which the core does not keep
};
struct CheckpointMoved {  // about once a second: what is on disk of a part that is being uploaded
  CheckpointId checkpoint;
  StageIndex stage = 0;
  Bytes received;
};
// The service has the files of one stage of a checkpoint on disk, hashed and synced; or has given
// them up.
struct CheckpointUploaded {
  CheckpointId checkpoint;
  StageIndex stage = 0;
  std::vector<FileEntry> files;  // whose: the part may have been given to another writer meanwhile
};
struct CheckpointUploadFailed {
  CheckpointId checkpoint;
  StageIndex stage = 0;
  std::string detail;
};
struct Tick {};  // a deadline has passed

using Input = std::variant<Booted, AgentHello, AgentSaid, AgentHungUp, SubmitJob, CancelJob,
                           PauseJob, ResumeJob, ChangeJob, CommandAgent, CommandCheckpoint,
                           RemoveJob, CheckpointMoved, CheckpointUploaded, CheckpointUploadFailed,
                           RecordKeysChanged, HostLineMeasured, Tick>;

// ---- effects

struct Persist {  // insert or replace by key; events append
  Record record;
};
struct Send {
  ConnectionId connection;
  ToAgent message;
};
struct Disconnect {
  ConnectionId connection;
};
struct Reply {
  RequestId request;
  Result<JobId> result;
  std::vector<FieldError> fields;
  std::shared_ptr<const PlacementDecision> plan;  // of a dry run that is good
  std::string forbidden = {};  // objects that exist, but that the caller may not use; for the audit
};
struct DeleteCheckpointFiles {
  CheckpointId checkpoint;
};
// Time messages over this stream, both ways (MeasureLine). HostLineMeasured answers once, within
// seconds, unless the stream ends before.
struct MeasureHostLine {
  ConnectionId connection;
};

// How fast a replica computes, for people: nothing keeps it (rounds/speeds.h).
struct ShowSpeed {
  ReplicaId replica;
  double ratio = 0;  // by what was promised
  std::string slow;  // why its agent is not sound; empty: it is as fast as promised
};

// How a job is placed, for people (replicas/moving.h).
struct ShowPlacement {
  std::shared_ptr<const PlacementReport> report;
  bool has_new_move = false;  // the report's move was considered just now
};

// The coordinator itself has taken a device out of service or put it back: for the audit trail.
struct NoteDecision {
  enum class Kind { kCordonDevice, kUncordonDevice };
  Kind kind = Kind::kCordonDevice;
  AgentId agent;
  std::int32_t device = 0;
  std::string uuid = {};  // empty: its agent did not say
  std::string why;        // the reasons of a cordon, or why it ends
};

using Effect = std::variant<Persist, Send, Disconnect, Reply, DeleteCheckpointFiles,
                            MeasureHostLine, ShowSpeed, ShowPlacement, NoteDecision>;
using Effects = std::vector<Effect>;

}  // namespace shoal::coordinator
