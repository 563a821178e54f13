#include "agent/host/process_id.h"

#include <fstream>

#include <sys/syscall.h>
#include <unistd.h>

#include "agent/host/process_table.h"

namespace shoal::agent {
namespace {

// Its real user; the owner of its folder in /proc is root where it may not be dumped.
std::optional<uid_t> user_of(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string word; status >> word;) {
    uid_t user = 0;
    if (word == "Uid:" && status >> user) return user;
  }
  return std::nullopt;
}

}  // namespace

std::optional<ProcessId> process_with(pid_t pid) {
  const auto entry = read_process(pid);
  return entry && !entry->ended ? std::optional(entry->id) : std::nullopt;
}

// The descriptor first: what is compared afterwards cannot become another process.
int open_process(const ProcessId& process) {
  if (process.pid <= 0) return -1;
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0u));
  if (fd < 0) return -1;
  if (process_with(process.pid) == process && user_of(process.pid) == getuid()) return fd;
  close(fd);
  return -1;
}

std::string boot_id() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

}  // namespace shoal::agent
