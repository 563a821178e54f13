// A device of an agent: what it is, and what its driver says of it. Part of messages and of
// records. A device is known by its UUID, because drivers number devices anew when one is lost. An
// agent of protocol 5 sends none; its devices are known by their index.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/enumerators.h"
#include "base/fields.h"
#include "base/time.h"
#include "base/units.h"

namespace shoal {

// kReducer computes nothing: the processor and the line of a host that takes part in reduces only.
enum class DeviceKind { kCpu, kCuda, kReducer };
constexpr auto enumerators_of(Of<DeviceKind>) {
  using enum DeviceKind;
  return enumerators<DeviceKind>({{kCpu, "cpu"}, {kCuda, "cuda"}, {kReducer, "reducer"}});
}

inline constexpr std::size_t kDevicesMax = 256;  // of one agent
inline constexpr std::size_t kDeviceUuidBytesMax = 96;

struct Device {
  std::int32_t index = 0;
  DeviceKind kind = DeviceKind::kCpu;
  std::string name;   // "NVIDIA H200", "AMD EPYC …"
  Bytes memory;       // what a replica may use
  double gflops = 0;  // measured, fp32 matrix product; 0: not measured yet
  bool bf16 = false;
  // The driver's, "GPU-…"; of a processor "cpu-", the agent's uid and the index; empty: not said.
  std::string uuid = {};
  Bytes total = {};  // built in, or what a limit of the host leaves of it; 0: not said
  // Devices of the replica group that it leads, all of which `gflops` counts: they
  // train a whole model together, but the leader alone a stage of a pipeline. 0: it leads none.
  std::int32_t grouped = 0;
  bool operator==(const Device&) const = default;
};
constexpr auto fields_of(Of<Device>) {
  using T = Device;
  return fields(field<&T::index>(), field<&T::kind>(), field<&T::name>(),
                field<&T::memory>("memory_bytes"), field<&T::gflops>(or_none()), field<&T::bf16>(),
                field<&T::uuid>(added_later() | at_most(kDeviceUuidBytesMax)),
                field<&T::total>("total_bytes", added_later()), field<&T::grouped>(added_later()));
}

// Whether the driver answers for a device.
enum class DeviceAnswer {
  kUnknown,  // never asked
  kWhole,    // every question that it has ever answered
  kPartial,  // some questions fail; `error` has the first one
  kSilent,   // it did not answer in time; the values are those of its last answer
  kLost,     // its UUID is gone
};
constexpr auto enumerators_of(Of<DeviceAnswer>) {
  using enum DeviceAnswer;
  return enumerators<DeviceAnswer>({{kUnknown, "unknown"},
                                    {kWhole, "whole"},
                                    {kPartial, "partial"},
                                    {kSilent, "silent"},
                                    {kLost, "lost"}});
}

// What the driver wants done with a GPU (nvmlDeviceGetFieldValues, recovery action).
enum class RecoveryAction { kNone, kResetGpu, kRebootHost, kDrainP2p, kDrainAndReset };
constexpr auto enumerators_of(Of<RecoveryAction>) {
  using enum RecoveryAction;
  return enumerators<RecoveryAction>({{kNone, "none"},
                                      {kResetGpu, "reset_gpu"},
                                      {kRebootHost, "reboot_host"},
                                      {kDrainP2p, "drain_p2p"},
                                      {kDrainAndReset, "drain_and_reset"}});
}

// Load and memory. Of a processor: of its host; `stolen` is what a hypervisor took.
struct DeviceUse {
  double busy = 0, stolen = 0;  // shares of the time, 0 to 1
  Bytes used_here;              // by this agent and its trainers
  Bytes used_elsewhere;         // by anybody else
  // Of `busy`, without `stolen`: by processes other than this agent's. 0 also where that cannot be
  // told: of a GPU while this agent has work on it, and of agents of protocol 6.
  double busy_elsewhere = 0;
  bool operator==(const DeviceUse&) const = default;
};
constexpr auto fields_of(Of<DeviceUse>) {
  using T = DeviceUse;
  return fields(field<&T::busy>(), field<&T::stolen>(), field<&T::used_here>("used_here_bytes"),
                field<&T::used_elsewhere>("used_elsewhere_bytes"),
                field<&T::busy_elsewhere>(added_later()));
}

inline constexpr std::size_t kThrottleReasonsMax = 16;

// Heat, power and clocks. 0: not known.
struct DeviceClimate {
  double celsius = 0, watts = 0, watts_limit = 0;
  double mhz = 0, mhz_max = 0;
  std::vector<std::string> throttled = {};  // the driver's reasons, "sw_power_cap", …; now
  bool operator==(const DeviceClimate&) const = default;
};
constexpr auto fields_of(Of<DeviceClimate>) {
  using T = DeviceClimate;
  return fields(field<&T::celsius>(), field<&T::watts>(), field<&T::watts_limit>(),
                field<&T::mhz>(), field<&T::mhz_max>(),
                field<&T::throttled>(at_most(kThrottleReasonsMax)));
}

inline constexpr std::size_t kXidsMax = 32;  // different ones of a device

// An error that the driver of a GPU reported, counted since the agent began.
struct XidCount {
  std::int32_t xid = 0;
  std::int64_t count = 0;
  Duration ago;  // the last one
  bool operator==(const XidCount&) const = default;
};
constexpr auto fields_of(Of<XidCount>) {
  using T = XidCount;
  return fields<&T::xid, &T::count, &T::ago>();
}

// Counted by the driver, since it was loaded or for the life of the card.
struct DeviceErrors {
  std::int64_t ecc_corrected = 0, ecc_uncorrected = 0;
  std::int64_t rows_remapped = 0;
  bool remap_pending = false, remap_failed = false;
  std::int64_t pcie_replays = 0, nvlink_errors = 0;
  RecoveryAction recovery = RecoveryAction::kNone;
  std::vector<XidCount> xids = {};
  bool operator==(const DeviceErrors&) const = default;
};
constexpr auto fields_of(Of<DeviceErrors>) {
  using T = DeviceErrors;
  return fields(field<&T::ecc_corrected>(), field<&T::ecc_uncorrected>(),
                field<&T::rows_remapped>(), field<&T::remap_pending>(), field<&T::remap_failed>(),
                field<&T::pcie_replays>(), field<&T::nvlink_errors>(),
                field<&T::recovery>(or_none()), field<&T::xids>(at_most(kXidsMax)));
}

inline constexpr std::size_t kDeviceErrorBytesMax = 256;

// What the driver said of a device last. A group that is not there was not answered.
struct DeviceSample {
  std::string uuid;  // of a Device
  DeviceAnswer answer = DeviceAnswer::kUnknown;
  Duration age;  // of the values, when the device is silent
  // Why some or all of it are missing, in the driver's words; of kWhole: the questions that this
  // driver has never answered.
  std::string error = {};
  std::optional<DeviceUse> use = {};
  std::optional<DeviceClimate> climate = {};
  std::optional<DeviceErrors> errors = {};
  bool operator==(const DeviceSample&) const = default;
};
constexpr auto fields_of(Of<DeviceSample>) {
  using T = DeviceSample;
  return fields(field<&T::uuid>(at_most(kDeviceUuidBytesMax)), field<&T::answer>(or_none()),
                field<&T::age>(), field<&T::error>(at_most(kDeviceErrorBytesMax)), field<&T::use>(),
                field<&T::climate>(), field<&T::errors>());
}

}  // namespace shoal
