// What people and programs read of agents and events (views.h). An empty optional is null, as is 0
// where the list says or_none(): not known yet.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/core/records/records.h"
#include "coordinator/service/cluster.h"
#include "coordinator/service/http/answers/round_answers.h"

namespace shoal::coordinator::rest {

struct QuarantineAnswer {
  Instant until;
  RejectReason reason = RejectReason::kNone;
  std::int32_t count = 0;
};
constexpr auto fields_of(Of<QuarantineAnswer>) {
  using T = QuarantineAnswer;
  return fields<&T::until, &T::reason, &T::count>();
}

struct MemoryRefusalAnswer {
  std::int32_t device = 0;
  Bytes needed;
  Instant at;
  std::string code;
};
constexpr auto fields_of(Of<MemoryRefusalAnswer>) {
  using T = MemoryRefusalAnswer;
  return fields(field<&T::device>(), field<&T::needed>("needed_bytes"), field<&T::at>(),
                field<&T::code>(added_later()));
}

struct CordonedDeviceAnswer {
  std::int32_t device = 0;
  Instant at;
  JobId job;  // none: its driver reported a fault
  std::string code;
  std::vector<std::string> reasons;
  std::string uuid;
  DeviceFault fault = DeviceFault::kNone;
  std::string ends;  // with what, as a sentence
};
constexpr auto fields_of(Of<CordonedDeviceAnswer>) {
  using T = CordonedDeviceAnswer;
  return fields(field<&T::device>(), field<&T::at>(), field<&T::job>(or_none()), field<&T::code>(),
                field<&T::reasons>(), field<&T::uuid>(added_later()),
                field<&T::fault>(added_later()), field<&T::ends>(added_later()));
}

struct XidAnswer {
  std::int32_t xid = 0;
  std::int64_t count = 0;
  double ago_s = 0;  // when the agent said it
};
constexpr auto fields_of(Of<XidAnswer>) {
  using T = XidAnswer;
  return fields<&T::xid, &T::count, &T::ago_s>();
}

struct DeviceErrorsAnswer {
  std::int64_t ecc_corrected = 0, ecc_uncorrected = 0, rows_remapped = 0;
  bool remap_pending = false, remap_failed = false;
  std::int64_t pcie_replays = 0, nvlink_errors = 0;
  RecoveryAction recovery = RecoveryAction::kNone;
  std::vector<XidAnswer> xids;
};
constexpr auto fields_of(Of<DeviceErrorsAnswer>) {
  using T = DeviceErrorsAnswer;
  return fields<&T::ecc_corrected, &T::ecc_uncorrected, &T::rows_remapped, &T::remap_pending,
                &T::remap_failed, &T::pcie_replays, &T::nvlink_errors, &T::recovery, &T::xids>();
}

// What the driver of a device said last (messages/device.h).
struct DeviceSampleAnswer {
  std::string uuid;
  DeviceAnswer answer = DeviceAnswer::kUnknown;
  double age_s = 0;
  std::string error;
  std::optional<DeviceUse> use;
  std::optional<DeviceClimate> climate;
  std::optional<DeviceErrorsAnswer> errors;
};
constexpr auto fields_of(Of<DeviceSampleAnswer>) {
  using T = DeviceSampleAnswer;
  return fields<&T::uuid, &T::answer, &T::age_s, &T::error, &T::use, &T::climate, &T::errors>();
}

// Why a device makes its agent yellow (core/state/agent_health.h).
struct DeviceTroubleAnswer {
  std::int32_t device = -1;
  std::string uuid;
  DeviceTroubleKind trouble = DeviceTroubleKind::kCordoned;
  std::string reason;
};
constexpr auto fields_of(Of<DeviceTroubleAnswer>) {
  using T = DeviceTroubleAnswer;
  return fields<&T::device, &T::uuid, &T::trouble, &T::reason>();
}

struct DevicePointAnswer {
  Instant at;  // where its minute, or its ten minutes, begin
  double busy = 0;
  Bytes used_here, used_elsewhere;
  double celsius = 0, watts = 0, mhz = 0, throttled = 0;
};
constexpr auto fields_of(Of<DevicePointAnswer>) {
  using T = DevicePointAnswer;
  return fields(field<&T::at>(), field<&T::busy>(), field<&T::used_here>("used_here_bytes"),
                field<&T::used_elsewhere>("used_elsewhere_bytes"), field<&T::celsius>(),
                field<&T::watts>(), field<&T::mhz>(), field<&T::throttled>());
}

struct DeviceHistoryAnswer {
  std::string uuid;
  std::int32_t index = 0;
  std::string name;
  std::vector<DevicePointAnswer> points;
};
constexpr auto fields_of(Of<DeviceHistoryAnswer>) {
  using T = DeviceHistoryAnswer;
  return fields<&T::uuid, &T::index, &T::name, &T::points>();
}
constexpr const char* schema_name(Of<DeviceHistoryAnswer>) { return "DeviceHistory"; }

struct AgentAnswer {
  AgentId id;
  std::string uid;
  std::string name;
  std::string version;
  std::string host;
  std::string relay;
  Incarnation incarnation;
  AgentState state = AgentState::kJoining;
  std::optional<AgentGone> gone_reason;
  AgentRole role = AgentRole::kTrainer;
  bool cordoned = false;
  bool drained = false;
  std::optional<QuarantineAnswer> quarantine;
  std::int32_t violations = 0;
  std::vector<MemoryRefusalAnswer> memory_refusals;
  std::vector<CordonedDeviceAnswer> cordoned_devices;
  std::vector<DeviceFailure> device_failures;
  std::vector<DeviceSampleAnswer> device_samples;
  std::vector<DeviceTroubleAnswer> device_troubles;
  std::int32_t losses = 0;
  double availability = 0;
  Health health = Health::kRed;
  std::string health_reason;
  std::int32_t slow_replicas = 0;
  bool late = false;
  Instant last_seen_at;
  Bytes resident_bytes;
  std::vector<Device> devices;
  std::vector<std::pair<std::string, std::string>> labels;
  Instant joined_at;
  Instant updated_at;
  bool runs_programs = false;
  std::vector<std::string> code_from;
  ProgramLimits program_limits = ProgramLimits::kNone;
};
constexpr auto fields_of(Of<AgentAnswer>) {
  using T = AgentAnswer;
  return fields(
      field<&T::id>(), field<&T::uid>(), field<&T::name>(), field<&T::version>(), field<&T::host>(),
      field<&T::relay>(added_later()), field<&T::incarnation>(), field<&T::state>(),
      field<&T::gone_reason>(), field<&T::role>(added_later()), field<&T::cordoned>(added_later()),
      field<&T::drained>(added_later()), field<&T::quarantine>(added_later()),
      field<&T::violations>(added_later()), field<&T::memory_refusals>(added_later()),
      field<&T::cordoned_devices>(added_later()), field<&T::device_failures>(added_later()),
      field<&T::device_samples>(added_later()), field<&T::device_troubles>(added_later()),
      field<&T::losses>(added_later()), field<&T::availability>(added_later() | any_number()),
      field<&T::health>(), field<&T::health_reason>(added_later()),
      field<&T::slow_replicas>(added_later()), field<&T::late>(added_later()),
      field<&T::last_seen_at>(or_none()), field<&T::resident_bytes>(or_none()),
      field<&T::devices>(), field<&T::labels>(), field<&T::joined_at>(or_none()),
      field<&T::updated_at>(or_none()), field<&T::runs_programs>(added_later()),
      field<&T::code_from>(added_later()), field<&T::program_limits>(added_later()));
}
constexpr const char* schema_name(Of<AgentAnswer>) { return "Agent"; }

constexpr const char* schema_name(Of<Device>) { return "Device"; }

struct EventAnswer {
  std::int64_t seq = 0;
  Instant at;
  Severity severity = Severity::kInfo;
  std::string kind;
  JobId job;
  AgentId agent;
  ReplicaId replica;
  RoundNumber round = 0;
  std::string message;
};
constexpr auto fields_of(Of<EventAnswer>) {
  using T = EventAnswer;
  return fields(field<&T::seq>(), field<&T::at>(), field<&T::severity>(), field<&T::kind>(),
                field<&T::job>(or_none()), field<&T::agent>(or_none()),
                field<&T::replica>(or_none()), field<&T::round>(or_none()), field<&T::message>());
}
constexpr const char* schema_name(Of<EventAnswer>) { return "Event"; }

}  // namespace shoal::coordinator::rest
