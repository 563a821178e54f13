// Processes that outlive the one that starts them. A process is known by its id and its start time,
// so that a recycled id is never mistaken for it (and never killed).
#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

#include "base/result.h"

namespace shoal::cli {

struct ProcessRef {
  std::string name;  // "coordinator", "agent-1"
  pid_t pid = 0;
  std::int64_t start = 0;  // /proc/PID/stat, field 22
  std::string log;         // stdout and stderr of it
  bool operator==(const ProcessRef&) const = default;
};

struct Launch {
  std::string name;
  std::vector<std::string> command;  // [0] is the path of the binary
  std::string log;                   // created or appended to
  bool ends_with_parent = false;     // gets SIGTERM when this process dies
};

// In a session and process group of its own: Ctrl-C of the terminal does not reach it.
Result<ProcessRef> launch(const Launch& what);

bool is_alive(const ProcessRef& process);  // reaps it when it was a child of ours and is dead

// SIGTERM to all, SIGKILL to the groups of those that are still there after the grace. Returns when
// all are gone, at the latest two seconds after the SIGKILL.
void stop(const std::vector<ProcessRef>& processes, double grace_s);

// The last lines of a text file, each indented; empty when there is none.
std::string last_lines(const std::string& path, int count);

std::string own_folder();  // of the running binary

}  // namespace shoal::cli
