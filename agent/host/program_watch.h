// Watches what the programs of jobs take of this host, every two seconds, on a thread of its own.
// A file system that hangs holds up this thread only.
//
// To a program belong the process that the agent started, the processes of its session, their
// descendants, and each process that was once one of these: a program cannot leave its bounds by
// leaving its session or its parent. A process that left both before it was seen is an orphan,
// which the kernel hands to the agent (children.h); it is killed.
//
// What exceeds its bounds is stopped (SIGSTOP) as a whole, so that it cannot start processes faster
// than they are killed, and killed. What it costs: one look at /proc, and the sizes of the
// program's files, which get at most a twentieth of the time and end at kFilesMax.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "agent/core/io.h"
#include "agent/host/process_table.h"
#include "agent/host/program_bounds.h"
#include "threads/mutex.h"

namespace shoal::agent {

struct WatchedProgram {
  TrainerId trainer;
  ProcessId process;
  std::vector<std::string> folders;  // whose files are the program's
};

class ProgramWatch {
 public:
  static constexpr std::int64_t kFilesMax = 1'000'000;
  // What exceeds which bound; once for each program, on the watching thread.
  using Over = std::function<void(TrainerId, const std::string& because)>;

  // `only_disk`: a cgroup bounds the rest.
  ProgramWatch(const ProgramBounds& bounds, bool only_disk, Over over, Duration every = seconds(2));

  void add(WatchedProgram program) SHOAL_EXCLUDES(mutex_);  // in place of what is in its slot
  void remove(TrainerId trainer) SHOAL_EXCLUDES(mutex_);

 private:
  struct Watched {
    WatchedProgram program;
    std::set<std::pair<pid_t, std::uint64_t>> members;  // that were seen
    std::chrono::steady_clock::time_point sized_at{};   // its files; the next time
    bool over = false;
  };
  using Processes = std::vector<ProcessEntry>;

  void run(const std::stop_token& stop);
  void look() SHOAL_EXCLUDES(mutex_);
  void take_programs() SHOAL_EXCLUDES(mutex_);
  std::string exceeded(Watched& watched, const Processes& all) const;
  std::string exceeded_on_disk(Watched& watched) const;
  // Those of `all` that belong to it; they are remembered.
  static Processes members_of(Watched& watched, const Processes& all);
  static void end(Watched& watched);
  void end_strays(const Processes& all) const;

  const ProgramBounds bounds_;
  const bool only_disk_;
  const Over over_;
  const Duration every_;
  std::map<std::int32_t, Watched> watched_;  // by slot; of the thread
  Mutex mutex_;
  std::map<std::int32_t, WatchedProgram> programs_ SHOAL_GUARDED_BY(mutex_);  // by slot
  std::jthread thread_;  // last: it uses the others
};

}  // namespace shoal::agent
