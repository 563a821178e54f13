#include "agent/host/children.h"

#include <charconv>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace shoal::agent {
namespace {

namespace fs = std::filesystem;

constexpr int kPassesMax = 64;  // one that dies hands its own children on
constexpr useconds_t kPauseUs = 5000;

// The fourth word of /proc/PID/stat; the second is a name in parentheses, of any letters.
pid_t parent_of(const fs::path& process) {
  std::string text;
  std::getline(std::ifstream(process / "stat"), text);
  const auto name_end = text.rfind(')');
  if (name_end == std::string::npos || name_end + 4 > text.size()) return 0;
  pid_t parent = 0;
  std::from_chars(text.data() + name_end + 4, text.data() + text.size(), parent);
  return parent;
}

std::vector<pid_t> all_children() {
  std::vector<pid_t> children;
  std::error_code unreadable;
  for (fs::directory_iterator it("/proc", unreadable), end; !unreadable && it != end;
       it.increment(unreadable)) {
    const std::string name = it->path().filename().string();
    pid_t number = 0;
    const auto [last, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error != std::errc() || last != name.data() + name.size()) continue;
    if (parent_of(it->path()) == ::getpid()) children.push_back(number);
  }
  return children;
}

bool adopts() {
  int on = 0;
  return ::prctl(PR_GET_CHILD_SUBREAPER, &on, 0, 0, 0) == 0 && on != 0;
}

}  // namespace

Children& Children::of_this_process() {
  static Children all;
  return all;
}

void Children::adopt_orphans() { ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); }

pid_t Children::start(const std::function<pid_t()>& fork) {
  const MutexLock guard(mutex_);
  const pid_t child = fork();
  if (child > 0) started_.insert(child);
  return child;
}

void Children::ended(pid_t child) {
  const MutexLock guard(mutex_);
  started_.erase(child);
}

void Children::end_orphans() {
  const MutexLock guard(mutex_);
  if (!adopts()) return;
  for (int pass = 0; pass < kPassesMax; ++pass) {
    bool found = false;
    for (const pid_t child : all_children()) {
      if (started_.contains(child)) continue;
      found = true;
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, WNOHANG);  // what is stuck in a driver is looked at the next time
    }
    if (!found) return;
    ::usleep(kPauseUs);
  }
}

}  // namespace shoal::agent
