// The life of a trainer process, whatever it computes with: it attaches to the agent that started
// it (docs/trainer_protocol.md), serves its peers, and works until the agent stops it or stays
// away.
#pragma once

#include <functional>
#include <string>

#include "messages/trainer_messages.h"
#include "replica/runtime/compute.h"

namespace shoal::replica {

inline constexpr int kExitBadEnvironment = 1, kExitDeviceLost = 3;

// Prints "program: what is wrong"; returns kExitBadEnvironment.
int complain(const std::string& program, const Error& error);

// Returns the exit code. `measure` fills device and libraries of what is said to the agent, once
// the agent is there: it may take a second. `host` outlives the call.
int serve(const std::string& program, ComputeHost& host,
          const std::function<MaybeFailure(TrainerReady&)>& measure);

}  // namespace shoal::replica
