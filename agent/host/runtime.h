// The production driver of the agent's core: one thread owns it, takes inputs from a bounded queue,
// brings the time, and performs the effects in order with the parts of this folder.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "agent/core/agent.h"
#include "agent/host/coordinator_link.h"
#include "agent/host/network.h"
#include "base/result.h"

namespace shoal::agent {

struct HostOptions {
  CoordinatorEndpoint coordinator;
  Options core;  // without uid and data_dir, which come from the data folder
  std::string data_dir;
  std::string trainer;                 // program
  int threads = 1;                     // of each CPU trainer
  int cell = 1;                        // devices that train one replica together; 1: each its own
  double speed = 1;                    // trainers pretend to be this share of their device
  std::string emulated_link;           // what trainers pretend to have; empty: the real line
  Duration trainer_ping = seconds(2);  // a frozen one is killed after two of these and detach_limit
  PortRange peer_ports;
};

class Runtime {
 public:
  // Opens the data folder and the trainers' socket. An Error is for the person at the terminal.
  static Result<std::unique_ptr<Runtime>> open(HostOptions options);
  ~Runtime();

  // Runs until the core ends the process; the exit code and a sentence for stderr. The calling
  // thread must live until then: trainers die with it.
  ExitProcess run();

  void stop();  // any thread; the second time at once

 private:
  class Impl;
  explicit Runtime(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace shoal::agent
