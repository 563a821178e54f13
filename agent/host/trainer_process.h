// One process that trains for this daemon: in a session of its own, so that it outlives the daemon,
// its output in a file that is handed on line by line (output_tail.h). It is a child of this
// daemon, or of an earlier start of it and found again. A thread waits for its end.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "agent/core/io.h"
#include "agent/host/confinement.h"
#include "agent/host/output_tail.h"
#include "agent/host/process_id.h"
#include "agent/host/program_user.h"
#include "base/result.h"
#include "threads/mutex.h"

namespace shoal::agent {

struct ProcessOptions {
  std::string program;                            // of start(); without a slash: found in PATH
  std::vector<std::string> arguments;             // of start(), without the program
  std::vector<std::string> environment;           // of start(): "NAME=value", over the daemon's own
  std::string output;                             // file of its standard output and error
  std::function<void(std::string_view)> on_line;  // of it; on a thread of the process
  std::string folder = {};                        // where start() begins it; empty: as the daemon
  // Beginnings of what start() takes from the daemon's environment; none: all but its tokens.
  std::vector<std::string> inherited = {};
  std::shared_ptr<const ConfinementRules> rules = {};  // of start(); none: it is not confined
  std::optional<ProgramUser> user = {};                // of start(); none: the daemon's own
  std::string cgroup = {};  // of start(): a cgroup.procs that the process enters; empty: none
  std::function<void(Bytes)> on_left_out = {};  // output that on_line did not get; as output_tail.h
};

class TrainerProcess {
 public:
  // `ended` runs once, on the waiting thread. An Error names the program and the reason.
  static Result<std::unique_ptr<TrainerProcess>> start(const ProcessOptions& options,
                                                       std::function<void(ProcessExit)> ended);
  // One that an earlier start of the daemon left. kNotFound when exactly this process has ended.
  // How it ends is not known then: only its parent is told.
  static Result<std::unique_ptr<TrainerProcess>> adopt(const ProcessId& process,
                                                       const ProcessOptions& options,
                                                       std::function<void(ProcessExit)> ended);
  // Kills what still runs and waits for it, unless it was left.
  ~TrainerProcess();

  void kill(bool hard);  // SIGKILL or SIGTERM to its group; nothing when it has ended
  void leave();          // to the next start of the daemon: nothing is done or heard any more
  const ProcessId& id() const { return id_; }

 private:
  TrainerProcess(const ProcessId& id, bool child, int descriptor, const ProcessOptions& options,
                 std::function<void(ProcessExit)> ended);
  void watch(const std::function<void(ProcessExit)>& ended);
  bool follow();  // until it ends; false: it was left
  ProcessExit reap();

  const ProcessId id_;
  const bool child_;
  const int descriptor_;  // of the process
  const int stop_;        // eventfd: it was left
  OutputTail tail_;       // of the thread
  Mutex mutex_;
  bool over_ SHOAL_GUARDED_BY(mutex_) = false;  // the number may belong to another process now
  bool left_ = false;
  std::thread thread_;  // last: uses the others
};

}  // namespace shoal::agent
