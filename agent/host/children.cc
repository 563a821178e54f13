#include "agent/host/children.h"

#include <csignal>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/host/process_table.h"

namespace shoal::agent {
namespace {

constexpr int kPassesMax = 64;  // one that dies hands its own children on
constexpr useconds_t kPauseUs = 5000;

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

bool Children::is_orphan(pid_t child) {
  const MutexLock guard(mutex_);
  return adopts() && !started_.contains(child);
}

void Children::end_orphans() {
  const MutexLock guard(mutex_);
  if (!adopts()) return;
  for (int pass = 0; pass < kPassesMax; ++pass) {
    bool found = false;
    for (const ProcessEntry& process : all_processes()) {
      const pid_t child = process.id.pid;
      if (process.parent != ::getpid() || started_.contains(child)) continue;
      found = true;
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, WNOHANG);  // what is stuck in a driver is looked at the next time
    }
    if (!found) return;
    ::usleep(kPauseUs);
  }
}

}  // namespace shoal::agent
