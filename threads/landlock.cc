#include "threads/landlock.h"

#include <algorithm>

#include <linux/landlock.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace shoal {

int landlock_version() {
  const long version =
      ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  return static_cast<int>(std::max(version, 0L));
}

}  // namespace shoal
