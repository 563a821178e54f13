// What a benchmark takes of the processors.
#pragma once

#include <sys/resource.h>

#include "base/check.h"

namespace shoal::bench {

// CPU time of all threads of this process, in user and kernel mode, since its start.
inline double cpu_seconds() {
  rusage usage{};
  SHOAL_CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace shoal::bench
