// A checkpoint as the coordinator remembers it: who writes what of it, how far that is, and the cut
// of the job that it stands for. One of the records of records.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/fields.h"
#include "base/time.h"
#include "job/job_spec.h"
#include "messages/message_parts.h"

namespace shoal::coordinator {

using shoal::to_string;

enum class CheckpointState { kWriting, kUploading, kStored, kFailed, kDeleted };
constexpr auto enumerators_of(Of<CheckpointState>) {
  using enum CheckpointState;
  return enumerators<CheckpointState>({{kWriting, "writing"},
                                       {kUploading, "uploading"},
                                       {kStored, "stored"},
                                       {kFailed, "failed"},
                                       {kDeleted, "deleted"}});
}

// The files of one stage, written by one of its replicas.
struct CheckpointPart {
  ReplicaId writer;
  CheckpointState state = CheckpointState::kWriting;
  Digest anchor, momentum;
  std::vector<FileEntry> files;
  UnitRange units = {};  // of the model, that the stage has; none: stored before this was recorded
  bool operator==(const CheckpointPart&) const = default;
};
constexpr auto fields_of(Of<CheckpointPart>) {
  using T = CheckpointPart;
  return fields(field<&T::writer>(), field<&T::state>(), field<&T::anchor>(), field<&T::momentum>(),
                field<&T::files>(), field<&T::units>(added_later()));
}

struct CheckpointRecord {
  CheckpointId id;
  RoundKey key;
  CheckpointState state = CheckpointState::kWriting;  // of the part that is least far
  bool final = false;
  bool pinned = false;                // a person's: no rule deletes it
  std::vector<CheckpointPart> parts;  // by stage
  Steps step;
  Tokens tokens;
  std::int64_t next_sequence = 0;  // the data ledger of the job at that cut, for a rollback to it
  std::vector<DataLease> returned;
  Instant verified_at;         // a replica loaded it, or its content was compared; zero: never
  std::string detail, sample;  // sample: a text that the model wrote; may be empty
  Instant created_at, updated_at;
  bool operator==(const CheckpointRecord&) const = default;
};
constexpr auto fields_of(Of<CheckpointRecord>) {
  using T = CheckpointRecord;
  return fields(field<&T::id>(), field<&T::key>(flat()), field<&T::state>(), field<&T::final>(),
                field<&T::pinned>(added_later()), field<&T::parts>(), field<&T::step>(),
                field<&T::tokens>(), field<&T::next_sequence>(), field<&T::returned>(),
                field<&T::verified_at>(added_later()), field<&T::detail>(), field<&T::sample>(),
                field<&T::created_at>(), field<&T::updated_at>());
}

std::vector<FileEntry> all_files(const CheckpointRecord& checkpoint);  // by stage
Bytes total_size(const CheckpointRecord& checkpoint);                  // of those files

}  // namespace shoal::coordinator
