// What devices did, by the minute, and what their drivers said last: disposable, so both are in
// telemetry.db. A minute is kept for three hours; then ten minutes are one row, kept for seven
// days. The number of rows is bounded: where there are many devices, both times are shorter.
//
// Rows of the same time lie together, so a minute of all devices is appended at one place of the
// file, and what is too old is cut off at another. A device's points are found by their times,
// which are multiples of their spans.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "base/units.h"
#include "coordinator/store/sqlite.h"
#include "messages/device.h"

namespace shoal::coordinator {

inline constexpr Duration kDeviceMinute = seconds(60), kDeviceTenMinutes = seconds(600);
inline constexpr Duration kDeviceMinutesKept = seconds(3 * 3600);
inline constexpr Duration kDeviceHistoryKept = seconds(7 * 24 * 3600);
inline constexpr std::int64_t kDeviceRowsMax = 4'000'000;  // about, of both spans together

// Means of the time that was heard of; memory and temperature are the highest.
struct DevicePoint {
  Instant at;  // where it begins
  double busy = 0;
  Bytes used_here, used_elsewhere;
  double celsius = 0, watts = 0, mhz = 0;
  double throttled = 0;  // share of the time
  bool operator==(const DevicePoint&) const = default;
};

struct DeviceMinute {
  AgentId agent;
  std::string uuid;
  DevicePoint point;
};

// What changes seldom: name, number, answers and errors of a device.
struct DeviceState {
  AgentId agent;
  std::int32_t index = 0;
  std::string name;
  DeviceSample sample;
  Instant at;  // of the sample
};

// What is written at once.
struct DeviceLog {
  std::vector<DeviceState> states;
  std::vector<DeviceMinute> minutes;
  bool empty() const { return states.empty() && minutes.empty(); }
};

struct DeviceLine {
  std::string uuid;
  std::int32_t index = 0;
  std::string name;
  std::vector<DevicePoint> points;  // by time
};

// The statements that make its tables where they are missing.
extern const char* const kDeviceTables;

// The writing side, within a transaction of the caller.
Status write_devices(Database& telemetry, const DeviceLog& log);
Status forget_devices(Database& telemetry, AgentId agent);

// The reading side. States have the use and climate of the newest minute, if that is theirs.
Result<std::vector<DeviceState>> read_devices(Database& telemetry);
// Points that begin at `from` or later: the newest ones by the minute, older ones by ten.
Result<std::vector<DeviceLine>> read_device_history(Database& telemetry, AgentId agent,
                                                    Instant from);

}  // namespace shoal::coordinator
