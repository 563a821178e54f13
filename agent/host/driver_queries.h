// The helper process that asks the driver of the GPUs (NVML), and its protocol. It is this program
// again, `shoal-agent --query-devices LIBRARY`, with nothing of the agent but one socket: a driver
// that hangs, prints, or ends its caller costs this process only (driver_helper.h starts it).
//
// A request is a line, and its answer one line of JSON:
//   open            DriverAnswer: how many GPUs there are
//   find N          GpuIdentity: the UUID of GPU N of the driver's list
//   describe N      GpuIdentity: all of it
//   xids N          numbers: the XIDs since the last time
//   read N          GpuReading: figures
//   list N          GpuReading: figures and processes
#pragma once

#include <string>
#include <string_view>

#include "agent/host/nvml.h"
#include "base/result.h"

namespace shoal::agent {

inline constexpr const char* kQueryDevicesFlag = "--query-devices";
inline constexpr int kQuerySocket = 3;                      // the helper's end
inline constexpr std::size_t kDriverAnswerMax = 256 << 10;  // bytes of a line

// Serves until the socket ends; the exit code.
int serve_driver_queries(const std::string& library);

Result<Nvml::Driver> read_driver(std::string_view json);
Result<GpuIdentity> read_identity(std::string_view json);
Result<std::vector<std::int32_t>> read_xids(std::string_view json);
Result<GpuReading> read_reading(std::string_view json);

}  // namespace shoal::agent
