// The processes of this host, as /proc lists them at one moment.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include <sys/types.h>

#include "agent/host/process_id.h"
#include "base/units.h"

namespace shoal::agent {

struct ProcessEntry {
  ProcessId id;
  pid_t parent = 0, session = 0;
  std::int64_t threads = 0;
  std::int64_t cpu_ticks = 0;  // that it and its children that have ended used, as in /proc/stat
  Bytes resident;              // pages that it shares with others count in full
  bool ended = false;          // and its parent has not waited for it
};

std::optional<ProcessEntry> read_process(pid_t pid);  // none: there is no such process
std::vector<ProcessEntry> all_processes();

// Those of `all` that began with one of the leaders: its session, and what descends from it.
std::vector<ProcessEntry> begun_by(const std::set<pid_t>& leaders,
                                   const std::vector<ProcessEntry>& all);

// Memory of a process that no file or other process backs. 0: it has ended.
Bytes own_memory(pid_t process);

// Memory of a process in which a page of N processes counts as 1/N; its resident memory where the
// kernel does not tell.
Bytes proportional_memory(const ProcessEntry& process);

// To exactly this process; false: it has ended, or may not be signaled.
bool signal_process(const ProcessId& process, int signal);

}  // namespace shoal::agent
