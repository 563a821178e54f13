// A line of history, and the counters from which ids and numbers are drawn. Two of the records of
// records.h.
#pragma once

#include <cstdint>
#include <string>

#include "base/fields.h"
#include "base/ids.h"
#include "base/time.h"

namespace shoal::coordinator {

using shoal::to_string;

enum class Severity { kInfo, kWarning, kError };
constexpr auto enumerators_of(Of<Severity>) {
  using enum Severity;
  return enumerators<Severity>({{kInfo, "info"}, {kWarning, "warning"}, {kError, "error"}});
}

// One line of history. `kind` is a closed word (event_kinds.h), e.g. "job_phase".
struct EventRecord {
  std::int64_t seq = 0;
  Instant at;
  Severity severity = Severity::kInfo;
  std::string kind;
  JobId job;  // zero: none
  AgentId agent;
  ReplicaId replica;
  RoundNumber round = 0;
  std::string message;
  bool operator==(const EventRecord&) const = default;
};
constexpr auto fields_of(Of<EventRecord>) {
  using T = EventRecord;
  return fields<&T::seq, &T::at, &T::severity, &T::kind, &T::job, &T::agent, &T::replica, &T::round,
                &T::message>();
}

// Counters that must survive a restart.
struct CounterRecord {
  std::uint64_t next_job = 1, next_agent = 1, next_replica = 1, next_checkpoint = 1;
  std::int64_t next_event = 1;
  std::int64_t boot_epoch = 0;  // raised by each start of the coordinator
  std::uint64_t store = 0;      // drawn at random by each start: names the ids that it gives out
  Instant backup_at;  // time of the backup, while some job does not know yet where to continue
  // New incarnations are above it. Those below may have been given out by a history that a backup
  // has ended.
  Incarnation incarnation_floor;
  bool operator==(const CounterRecord&) const = default;
};
constexpr auto fields_of(Of<CounterRecord>) {
  using T = CounterRecord;
  return fields<&T::next_job, &T::next_agent, &T::next_replica, &T::next_checkpoint, &T::next_event,
                &T::boot_epoch, &T::store, &T::backup_at, &T::incarnation_floor>();
}

}  // namespace shoal::coordinator
