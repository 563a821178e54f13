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
  return fields(field<&T::seq>("seq"), field<&T::at>("at"), field<&T::severity>("severity"),
                field<&T::kind>("kind"), field<&T::job>("job"), field<&T::agent>("agent"),
                field<&T::replica>("replica"), field<&T::round>("round"),
                field<&T::message>("message"));
}
static_assert(lists_every_field<EventRecord>());

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
  return fields(field<&T::next_job>("next_job"), field<&T::next_agent>("next_agent"),
                field<&T::next_replica>("next_replica"),
                field<&T::next_checkpoint>("next_checkpoint"), field<&T::next_event>("next_event"),
                field<&T::boot_epoch>("boot_epoch"), field<&T::store>("store"),
                field<&T::backup_at>("backup_at"),
                field<&T::incarnation_floor>("incarnation_floor"));
}
static_assert(lists_every_field<CounterRecord>());

}  // namespace shoal::coordinator
