#include "agent/host/process_id.h"

#include <fstream>
#include <sstream>

#include <sys/syscall.h>
#include <unistd.h>

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

// Fields after the last ')' of the line: the name in front may hold blanks.
std::optional<ProcessId> process_with(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  const auto close = line.rfind(')');
  if (close == std::string::npos) return std::nullopt;
  std::istringstream fields(line.substr(close + 1));
  char state = 0;
  fields >> state;
  std::string skipped;
  for (int field = 4; field < 22; ++field) fields >> skipped;
  ProcessId found{pid, 0};
  if (!(fields >> found.started) || state == 'Z' || state == 'X') return std::nullopt;
  return found;
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
