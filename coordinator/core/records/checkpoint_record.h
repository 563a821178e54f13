// A checkpoint as the coordinator remembers it: who writes what of it, how far that is, and the cut
// of the job that it stands for. One of the records of records.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/time.h"
#include "swarm/core/messages.h"

namespace shoal::coordinator {

enum class CheckpointState { kWriting, kUploading, kStored, kFailed, kDeleted };

// The files of one stage, written by one of its replicas.
struct CheckpointPart {
  ReplicaId writer;
  CheckpointState state = CheckpointState::kWriting;
  Digest anchor, momentum;
  std::vector<FileEntry> files;
  UnitRange units = {};  // of the model, that the stage has; none: stored before this was recorded
  bool operator==(const CheckpointPart&) const = default;
};

struct CheckpointRecord {
  CheckpointId id;
  RoundKey key;
  CheckpointState state = CheckpointState::kWriting;  // of the part that is least far
  bool final = false;
  std::vector<CheckpointPart> parts;  // by stage
  Steps step;
  Tokens tokens;
  std::int64_t next_sequence = 0;  // the data ledger of the job at that cut, for a roll-back to it
  std::vector<DataLease> returned;
  std::string detail, sample;  // sample: a text that the model wrote; may be empty
  Instant created_at, updated_at;
  bool operator==(const CheckpointRecord&) const = default;
};

const char* to_string(CheckpointState value);

std::vector<FileEntry> all_files(const CheckpointRecord& checkpoint);  // by stage

}  // namespace shoal::coordinator
