// How much memory the processes of this agent may still take: of the host, and of every memory
// cgroup around this process, of version 1 or 2. A container, a service with MemoryMax= and a batch
// system limit a process by one of the groups above it, which is not the innermost one as a rule.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"

namespace shoal::agent {

// The host, or one group. What the kernel keeps of files can be given back, so it is not in `used`.
struct MemoryLevel {
  std::string name;  // "the host", or the folder of the group
  Bytes limit, used;
};

// The host first, then the groups that have a limit, the innermost first. `root` stands before
// /proc and /sys; tests name a folder. What cannot be read limits nothing.
std::vector<MemoryLevel> memory_levels(const std::string& root = "");

// What fits at every level: its limit less what is used there by others. `ours` is counted in all
// of them. 0: nothing could be read.
Bytes room_for(Bytes ours, const std::vector<MemoryLevel>& levels);

// The smallest limit of all levels: no more fits, whatever else runs. 0: nothing could be read.
Bytes whole_memory(const std::vector<MemoryLevel>& levels);

// How many processes the kernel has ended for want of memory since this host was started, whoever's
// and in whatever cgroup. 0: it does not count them.
std::int64_t killed_for_memory(const std::string& root = "");

}  // namespace shoal::agent
