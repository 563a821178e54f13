// Whether the kernel can confine a process to named files (man 7 landlock).
#pragma once

namespace shoal {

// The version of its interface; 0: this kernel does not have it, or does not let it be used.
int landlock_version();

}  // namespace shoal
