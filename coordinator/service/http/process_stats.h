// What the kernel says about this process, under the names that Prometheus' own clients use.
#pragma once

#include <cstdint>

namespace shoal::coordinator::rest {

struct ProcessStats {
  double start_time_s = 0;  // Unix
  double cpu_s = 0;         // user and system
  std::int64_t resident_bytes = 0;
  std::int64_t open_fds = 0;
};

ProcessStats read_process_stats();  // zeros where /proc does not say

}  // namespace shoal::coordinator::rest
