// The children of this process: those that it has started, and others. When a program ends that has
// started further ones outside of its session, the kernel gives those to the nearest ancestor that
// asks for it. This process asks, and ends them. Otherwise a job's program could leave processes
// behind on the host.
//
// One for the whole process; thread-safe.
#pragma once

#include <functional>
#include <set>

#include <sys/types.h>

#include "threads/mutex.h"

namespace shoal::agent {

class Children {
 public:
  static Children& of_this_process();

  // From now on this process gets those that its children leave behind.
  void adopt_orphans();

  // What `fork` returns is known before anybody looks for orphans.
  pid_t start(const std::function<pid_t()>& fork) SHOAL_EXCLUDES(mutex_);
  // It was waited for.
  void ended(pid_t child) SHOAL_EXCLUDES(mutex_);
  // Whether another process started this child of this process, and left it behind.
  bool is_orphan(pid_t child) SHOAL_EXCLUDES(mutex_);
  // Kills those that this process did not start, and theirs. Nothing without adopt_orphans().
  void end_orphans() SHOAL_EXCLUDES(mutex_);

 private:
  Children() = default;
  Mutex mutex_;
  std::set<pid_t> started_ SHOAL_GUARDED_BY(mutex_);
};

}  // namespace shoal::agent
