// The life of a trainer process, whatever it computes with: it attaches to the agent that started
// it (docs/trainer_protocol.md), serves its peers, and works until the agent stops it or stays
// away. What it is to be told stands in the environment.
#pragma once

#include <functional>
#include <stop_token>
#include <string>

#include "base/result.h"
#include "messages/trainer_messages.h"
#include "replica/runtime/compute.h"
#include "replica/runtime/worker.h"

namespace shoal::replica {

inline constexpr int kExitBadEnvironment = 1, kExitDeviceLost = 3;

// Prints "program: what is wrong"; returns kExitBadEnvironment.
int complain(const std::string& program, const Error& error);

struct TrainerProgram {
  std::string name;   // for complaints
  ComputeHost& host;  // outlives the call
  // Fills device and libraries of what is said to the agent, once the agent is there: it may take a
  // second.
  std::function<MaybeFailure(TrainerReady&)> measure;
  // Ends it as the agent's stop does; while the agent is being dialed, after that.
  std::stop_token stop = {};
};

// Works until the end. An Error: a variable of the environment is wrong, nobody listens on the
// agent's socket, or the device does not work.
Result<WorkerEnd> attend(const TrainerProgram& program);

// As a whole program, whose signals it sets: complains, and returns the exit code.
int serve(const TrainerProgram& program);

}  // namespace shoal::replica
