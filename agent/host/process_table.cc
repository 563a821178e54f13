#include "agent/host/process_table.h"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include <sys/syscall.h>
#include <unistd.h>

namespace shoal::agent {

namespace fs = std::filesystem;

// Fields of /proc/PID/stat after the name, which is in parentheses and may hold anything.
std::optional<ProcessEntry> read_process(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  const auto close = line.rfind(')');
  if (close == std::string::npos) return std::nullopt;
  std::istringstream fields(line.substr(close + 1));
  const auto skip = [&fields](int count) {
    for (std::string skipped; count > 0; --count) fields >> skipped;
  };
  ProcessEntry entry;
  entry.id.pid = pid;
  char state = 0;
  std::int64_t pages = 0;
  fields >> state >> entry.parent;
  skip(1);  // its group
  fields >> entry.session;
  skip(7);
  for (int i = 0; i < 4; ++i) {  // its own in user and system mode, then its children's
    std::int64_t ticks = 0;
    fields >> ticks;
    entry.cpu_ticks += ticks;
  }
  skip(2);
  fields >> entry.threads;
  skip(1);
  fields >> entry.id.started;
  skip(1);
  fields >> pages;
  if (!fields) return std::nullopt;
  entry.ended = state == 'Z' || state == 'X';
  entry.resident = Bytes(pages * sysconf(_SC_PAGESIZE));
  return entry;
}

std::vector<ProcessEntry> all_processes() {
  std::vector<ProcessEntry> all;
  std::error_code unreadable;
  for (fs::directory_iterator it("/proc", unreadable), end; !unreadable && it != end;
       it.increment(unreadable)) {
    const std::string name = it->path().filename().string();
    pid_t number = 0;
    const auto [last, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error != std::errc() || last != name.data() + name.size()) continue;
    if (const auto entry = read_process(number)) all.push_back(*entry);
  }
  return all;
}

std::vector<ProcessEntry> begun_by(const std::set<pid_t>& leaders,
                                   const std::vector<ProcessEntry>& all) {
  std::map<pid_t, pid_t> parents;
  for (const ProcessEntry& process : all) parents[process.id.pid] = process.parent;
  const auto descends = [&](pid_t process) {
    for (std::size_t steps = 0; steps <= parents.size(); ++steps) {
      if (leaders.contains(process)) return true;
      const auto parent = parents.find(process);
      if (parent == parents.end()) return false;
      process = parent->second;
    }
    return false;
  };
  std::vector<ProcessEntry> begun;
  for (const ProcessEntry& process : all) {
    if (leaders.contains(process.session) || descends(process.id.pid)) begun.push_back(process);
  }
  return begun;
}

Bytes own_memory(pid_t process) {
  std::int64_t size = 0, resident = 0, shared = 0;
  std::ifstream("/proc/" + std::to_string(process) + "/statm") >> size >> resident >> shared;
  return Bytes((resident - shared) * sysconf(_SC_PAGESIZE));
}

Bytes proportional_memory(const ProcessEntry& process) {
  std::ifstream file("/proc/" + std::to_string(process.id.pid) + "/smaps_rollup");
  for (std::string word; file >> word;) {
    std::int64_t kib = 0;
    if (word == "Pss:" && file >> kib) return Bytes(kib << 10);
  }
  return process.resident;
}

// The descriptor first: what is compared afterwards cannot become another process.
bool signal_process(const ProcessId& process, int signal) {
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0u));
  if (fd < 0) return false;
  const bool sent = process_with(process.pid) == process &&
                    syscall(SYS_pidfd_send_signal, fd, signal, nullptr, 0u) == 0;
  close(fd);
  return sent;
}

}  // namespace shoal::agent
