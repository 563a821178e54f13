// Which process a number means: numbers are given out again, the pair of number and start time is
// not, as long as the host is up. Code that signals a process that it did not start itself holds
// it by a descriptor (pidfd) and compares first.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <sys/types.h>

namespace shoal::agent {

struct ProcessId {
  pid_t pid = 0;
  std::uint64_t started = 0;  // clock ticks after the host's boot; /proc/PID/stat, field 22
  bool operator==(const ProcessId&) const = default;
};

// The id of the process that has this number now; none if there is no such process or it has ended.
std::optional<ProcessId> process_with(pid_t pid);

// A descriptor of exactly this process, which belongs to this user; -1 when it has ended. To be
// closed. Readable once the process has ended.
int open_process(const ProcessId& process);

std::string boot_id();  // of the host; changes with every boot

}  // namespace shoal::agent
