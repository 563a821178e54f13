// What the coordinator remembers of an agent: who it is, its devices, and what its past says about
// it. One of the records of records.h.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/fields.h"
#include "base/ids.h"
#include "base/time.h"
#include "base/units.h"
#include "job/program_rules.h"
#include "messages/block_times.h"
#include "messages/message_parts.h"

namespace shoal::coordinator {

using shoal::to_string;

enum class AgentState { kJoining, kIdle, kSyncing, kActive, kDraining, kGone };
constexpr auto enumerators_of(Of<AgentState>) {
  using enum AgentState;
  return enumerators<AgentState>({{kJoining, "joining"},
                                  {kIdle, "idle"},
                                  {kSyncing, "syncing"},
                                  {kActive, "active"},
                                  {kDraining, "draining"},
                                  {kGone, "gone"}});
}

enum class AgentGone { kNone, kLeft, kLost };
constexpr auto enumerators_of(Of<AgentGone>) {
  using enum AgentGone;
  return enumerators<AgentGone>({{kNone, "none"}, {kLeft, "left"}, {kLost, "lost"}});
}

// Why a contribution has no weight. kOutlier: its norm is far above the median of the others.
// kFalseNorm, kFalseAverage: what a reduce has shown of it (decisions/sent_norms.h, audit.h).
enum class RejectReason {
  kNone,
  kNonFinite,
  kNoTokens,
  kNotReported,
  kJoiner,
  kOutlier,
  kExcluded,      // lost in the reduce: the average was made without it, or without a part of it
  kFalseNorm,     // it sent more than the norm that it reported
  kFalseAverage,  // it averaged its part falsely
  kUnverified,    // one other says that it sent more than it reported, and nobody can tell
};
constexpr auto enumerators_of(Of<RejectReason>) {
  using enum RejectReason;
  return enumerators<RejectReason>({{kNone, "none"},
                                    {kNonFinite, "non_finite"},
                                    {kNoTokens, "no_tokens"},
                                    {kNotReported, "not_reported"},
                                    {kJoiner, "joiner"},
                                    {kOutlier, "outlier"},
                                    {kExcluded, "excluded"},
                                    {kFalseNorm, "false_norm"},
                                    {kFalseAverage, "false_average"},
                                    {kUnverified, "unverified"}});
}

// What is held against an agent; the rules are in state/health_record.h.
struct HealthRecord {
  std::int32_t violations = 0;  // rejected contributions within the window
  Instant last_violation_at;    // the last one; zero: never
  RejectReason violation_reason = RejectReason::kNone;
  std::int32_t quarantines = 0;  // so far; each is longer than the one before
  Instant quarantined_until;     // zero: it is not
  bool operator==(const HealthRecord&) const = default;
};
constexpr auto fields_of(Of<HealthRecord>) {
  using T = HealthRecord;
  return fields<&T::violations, &T::last_violation_at, &T::violation_reason, &T::quarantines,
                &T::quarantined_until>();
}

// kMemory: the device ran out of memory with a replica that, together with those on the same
// device, needs `needed` (state/health_record.h). kFailing: its replicas failed again and again
// while others of the job trained, so the coordinator has cordoned it
// (replicas/device_failures.h). kUnhealthy: its driver reported a fault, so the coordinator has
// cordoned it (replicas/device_health.h).
enum class DeviceRefusalKind { kMemory, kFailing, kUnhealthy };
constexpr auto enumerators_of(Of<DeviceRefusalKind>) {
  using enum DeviceRefusalKind;
  return enumerators<DeviceRefusalKind>(
      {{kMemory, "memory"}, {kFailing, "failing"}, {kUnhealthy, "unhealthy"}});
}

// What a driver reported (state/device_faults.h).
enum class DeviceFault {
  kNone,
  kLost,            // its UUID does not answer any more
  kRecoveryAction,  // the driver wants it, or its host, reset
  kRemapFailed,     // a row of memory could not be replaced
  kRemapPending,    // a row of memory is replaced at the next reset
  kXid,             // one that NVIDIA documents as fatal for the GPU
  kUncorrected,     // memory errors that were not corrected
};
constexpr auto enumerators_of(Of<DeviceFault>) {
  using enum DeviceFault;
  return enumerators<DeviceFault>({{kNone, "none"},
                                   {kLost, "lost"},
                                   {kRecoveryAction, "recovery_action"},
                                   {kRemapFailed, "remap_failed"},
                                   {kRemapPending, "remap_pending"},
                                   {kXid, "xid"},
                                   {kUncorrected, "uncorrected"}});
}

// Work that a device does not get any more.
struct DeviceRefusal {
  std::int32_t device = 0;
  Bytes needed;  // kMemory: the least that failed; 0: not known, as for a program
  Instant at;
  std::string code = {};  // of the program that failed, which alone it holds for; empty: any model
  DeviceRefusalKind kind = DeviceRefusalKind::kMemory;
  // The device's; empty: its agent did not say. A device that is not there now has the index -1.
  std::string uuid = {};
  JobId job = {};                          // kFailing: of the replicas that failed, and
  std::vector<std::string> reasons = {};   // what each of them said; kUnhealthy: the driver
  DeviceFault fault = DeviceFault::kNone;  // kUnhealthy: the newest, which the cordon ends with
  bool operator==(const DeviceRefusal&) const = default;
};
constexpr auto fields_of(Of<DeviceRefusal>) {
  using T = DeviceRefusal;
  return fields(field<&T::device>(), field<&T::needed>("needed_bytes"), field<&T::at>(),
                field<&T::code>(added_later()), field<&T::kind>(added_later()),
                field<&T::uuid>(added_later()), field<&T::job>(added_later()),
                field<&T::reasons>(added_later()), field<&T::fault>(added_later()));
}

// How long it was here, and how often it went.
struct Uptime {
  Instant since;               // of its present stay
  std::int64_t present_s = 0;  // sum of the stays that ended
  std::int32_t losses = 0;     // of those
  bool operator==(const Uptime&) const = default;
};
constexpr auto fields_of(Of<Uptime>) {
  using T = Uptime;
  return fields(field<&T::since>("present_since"), field<&T::present_s>(), field<&T::losses>());
}

inline constexpr std::size_t kBlocksPerDeviceMax = 16;

// What a device took for a block of a model (replicas/profiling.h). Gone with another version of
// the agent's software, and when the device measures itself at another speed.
struct MeasuredBlock {
  std::int32_t device = 0;
  std::string uuid;  // the device's; empty: its agent does not say
  Digest shape;      // of BlockShape
  BlockTimes times;
  Instant at;
  bool operator==(const MeasuredBlock&) const = default;
};
constexpr auto fields_of(Of<MeasuredBlock>) {
  using T = MeasuredBlock;
  return fields(field<&T::device>(), field<&T::uuid>(), field<&T::shape>(),
                field<&T::times>(flat()), field<&T::at>());
}

// The line of the agent's host, as the coordinator measured it over the agent's stream
// (replicas/line_probes.h). Lower bounds of what it carries, if the coordinator's own line is the
// slower one.
struct HostLine {
  double up = 0, down = 0;  // bytes/s from and to the host; 0: not measured
  Duration round_trip;      // zero: no answer came in time, and the rates are what that leaves
  bool at_least = false;    // the slower rate: its bytes took little longer than the round trip
  Instant measured_at;
  bool operator==(const HostLine&) const = default;
};
constexpr auto fields_of(Of<HostLine>) {
  using T = HostLine;
  return fields(field<&T::up>("up_bytes_per_s"), field<&T::down>("down_bytes_per_s"),
                field<&T::round_trip>(), field<&T::at_least>(), field<&T::measured_at>());
}

struct AgentRecord {
  AgentId id;
  std::string uid, name, version, host;
  std::string relay;  // host:port where it relays; empty: it does not
  Incarnation incarnation;
  AgentState state = AgentState::kJoining;
  AgentGone gone = AgentGone::kNone;
  bool cordoned = false;  // the operator's: no new replicas
  std::vector<Device> devices;
  std::vector<std::pair<std::string, std::string>> labels;
  Instant joined_at, updated_at;
  HealthRecord health_record;
  std::vector<DeviceRefusal> refusals;  // one per device, kind and program at most
  Uptime uptime;
  AllowedPrograms programs;           // as its newest hello says
  std::vector<MeasuredBlock> blocks;  // oldest first; kBlocksPerDeviceMax of a device at most
  HostLine line;
  bool operator==(const AgentRecord&) const = default;
};
constexpr auto fields_of(Of<AgentRecord>) {
  using T = AgentRecord;
  return fields(field<&T::id>(), field<&T::uid>(), field<&T::name>(), field<&T::version>(),
                field<&T::host>(), field<&T::relay>(), field<&T::incarnation>(), field<&T::state>(),
                field<&T::gone>(), field<&T::cordoned>(), field<&T::devices>(), field<&T::labels>(),
                field<&T::joined_at>(), field<&T::updated_at>(), field<&T::health_record>(flat()),
                field<&T::refusals>(), field<&T::uptime>(flat()), field<&T::programs>(flat()),
                field<&T::blocks>(), field<&T::line>(flat("line_")));
}

// An operator had this agent forgotten: what is stored of it and of its lines goes. Its id is not
// given to another one.
struct ForgottenAgent {
  AgentId id;
  bool operator==(const ForgottenAgent&) const = default;
};

}  // namespace shoal::coordinator
