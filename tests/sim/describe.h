// One line of text for each message, input and record: what a trace is made of. Heartbeats and
// progress are left out (an empty line), they would drown the rest.
#pragma once

#include <string>

#include "coordinator/core/state/io.h"
#include "messages/trainer_messages.h"

namespace shoal::sim {

std::string describe(const FromAgent& message);
std::string describe(const ToAgent& message);
std::string describe(const FromTrainer& message);
std::string describe(const coordinator::Record& record);

}  // namespace shoal::sim
