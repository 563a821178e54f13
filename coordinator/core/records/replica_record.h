// A replica as the coordinator remembers it. One of the records of records.h.
#pragma once

#include <cstdint>
#include <string>

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
  kAbsent,  // its agent is out of reach; it takes part in nothing, and goes on with what it holds
  kReleased,
  kFailed
};
constexpr auto words_of(Of<ReplicaState>) {
  using enum ReplicaState;
  return words<ReplicaState>({{kAssigned, "assigned"},
                              {kLoading, "loading"},
                              {kServing, "serving"},
                              {kAveraging, "averaging"},
                              {kAbsent, "absent"},
                              {kReleased, "released"},
                              {kFailed, "failed"}});
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
  std::int64_t lineage = 0;
  RoundNumber held_round = -1;  // the committed state it holds; -1 before it loaded
  Digest anchor, momentum;      // of held_round
  std::uint64_t store = 0;  // CounterRecord.store when it was assigned: an id may be given again
                            // after a backup was put back, the two together never are
  Instant absent_since;     // in kAbsent
  Instant created_at, updated_at;
  bool operator==(const ReplicaRecord&) const = default;
};
constexpr auto fields_of(Of<ReplicaRecord>) {
  using T = ReplicaRecord;
  return fields(field<&T::id>("id"), field<&T::job>("job"), field<&T::agent>("agent"),
                field<&T::incarnation>("incarnation"), field<&T::device>("device"),
                field<&T::stage>("stage"), field<&T::state>("state"), field<&T::failure>("failure"),
                field<&T::detail>("detail"), field<&T::source>("source"),
                field<&T::address>("address"), field<&T::lineage>("lineage"),
                field<&T::held_round>("held_round"), field<&T::anchor>("anchor"),
                field<&T::momentum>("momentum"), field<&T::store>("store"),
                field<&T::absent_since>("absent_since"), field<&T::created_at>("created_at"),
                field<&T::updated_at>("updated_at"));
}
static_assert(lists_every_field<ReplicaRecord>());

bool is_terminal(ReplicaState state);  // released, failed

}  // namespace shoal::coordinator
