// The production driver of the agent's core: one thread owns it, takes inputs from a bounded queue,
// brings the time, and performs the effects in order with the parts of this folder.
#pragma once

#include <memory>

#include "agent/host/host_options.h"
#include "base/result.h"

namespace shoal::agent {

class Runtime {
 public:
  // Opens the data folder and the trainers' socket. An Error is for the person at the terminal.
  static Result<std::unique_ptr<Runtime>> open(HostOptions options);
  ~Runtime();

  // Runs until the core ends the process; the exit code and a sentence for stderr.
  ExitProcess run();

  // Any thread.
  void stop();                          // the second time at once
  void hand_over();                     // ends, and leaves the trainers to the next start
  std::string metrics_address() const;  // where its metrics are scraped; empty: nowhere

 private:
  class Impl;
  explicit Runtime(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace shoal::agent
