// One child process: started in its own process group, killed with this daemon, its output handed
// on line by line. A thread waits for its end, so that nothing polls.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <sys/types.h>

#include "agent/core/io.h"
#include "base/result.h"

namespace shoal::agent {

struct ProcessOptions {
  std::string program;
  std::vector<std::string> environment;           // "NAME=value", over the daemon's own
  std::function<void(std::string_view)> on_line;  // of its output; on a thread of the process
};

class TrainerProcess {
 public:
  // Call from a thread that lives as long as the daemon: the kernel kills the child when the thread
  // that started it ends. `ended` runs once, on the waiting thread. An Error names the program and
  // the reason.
  static Result<std::unique_ptr<TrainerProcess>> start(const ProcessOptions& options,
                                                       std::function<void(ProcessExit)> ended);
  // Kills what still runs and waits for it.
  ~TrainerProcess();

  void kill(bool hard);  // SIGKILL or SIGTERM to the group; nothing when it has ended
  pid_t pid() const { return pid_; }

 private:
  TrainerProcess(pid_t pid, int output, int stop, const ProcessOptions& options,
                 std::function<void(ProcessExit)> ended);
  void wait(std::function<void(ProcessExit)> ended);

  const pid_t pid_;
  std::mutex mutex_;
  bool reaped_ = false;    // the number may belong to another process now
  int stop_pump_;          // eventfd: the process ended, read what is left
  std::string last_line_;  // written by the pump, read after it was joined
  std::thread pump_, waiter_;
};

}  // namespace shoal::agent
