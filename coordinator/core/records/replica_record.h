// A replica as the coordinator remembers it. One of the records of records.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/time.h"
#include "messages/message_parts.h"

namespace shoal::coordinator {

using shoal::to_string;

enum class ReplicaState {
  kAssigned,
  kLoading,
  kServing,
  kAveraging,
  kAbsent,  // its agent is out of reach; it takes part in nothing, and continues with what it holds
  kReleased,
  kFailed
};
constexpr auto enumerators_of(Of<ReplicaState>) {
  using enum ReplicaState;
  return enumerators<ReplicaState>({{kAssigned, "assigned"},
                                    {kLoading, "loading"},
                                    {kServing, "serving"},
                                    {kAveraging, "averaging"},
                                    {kAbsent, "absent"},
                                    {kReleased, "released"},
                                    {kFailed, "failed"}});
}

// A copy of another stage of its job that a replica keeps. What it holds is not on record: its
// trainer says so (CopiesHeld), also to a coordinator that was restarted.
struct KeptCopy {
  ReplicaId id;  // by which it is asked; no replica has this id
  StageIndex stage = 0;
  bool operator==(const KeptCopy&) const = default;
};
constexpr auto fields_of(Of<KeptCopy>) {
  using T = KeptCopy;
  return fields<&T::id, &T::stage>();
}

struct ReplicaRecord {
  ReplicaId id;
  JobId job;
  AgentId agent;
  Incarnation incarnation;  // of the agent when it was assigned
  std::int32_t device = 0;
  StageIndex stage = 0;
  ReplicaState state = ReplicaState::kAssigned;
  ReplicaFailure failure = ReplicaFailure::kInternal;  // meaningful in kFailed
  std::string detail;
  StateSource source;
  std::string address;  // of its peer service, once loaded
  std::int64_t epoch = 0;
  RoundNumber held_round = -1;  // the committed state it holds; -1 before it loaded
  Digest anchor, momentum;      // of held_round
  std::uint64_t store = 0;  // CounterRecord.store when it was assigned: an id may be given again
                            // after a backup was put back, the two together never are
  Instant absent_since;     // in kAbsent
  std::vector<KeptCopy> copies;  // that it was given to keep
  Instant created_at, updated_at;
  bool operator==(const ReplicaRecord&) const = default;
};
constexpr auto fields_of(Of<ReplicaRecord>) {
  using T = ReplicaRecord;
  return fields<&T::id, &T::job, &T::agent, &T::incarnation, &T::device, &T::stage, &T::state,
                &T::failure, &T::detail, &T::source, &T::address, &T::epoch, &T::held_round,
                &T::anchor, &T::momentum, &T::store, &T::absent_since, &T::copies, &T::created_at,
                &T::updated_at>();
}

bool is_terminal(ReplicaState state);  // released, failed

}  // namespace shoal::coordinator
