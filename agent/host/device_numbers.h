// Numbers of GPUs that stay while trainers live. A trainer is started with the number of its GPU
// (SHOAL_TRAINER_DEVICE), and its replica is known by that number here and at the coordinator. A
// GPU that is lost between two starts must not renumber the others, because their trainers would
// have to end. So each GPU of a trainer that still lives keeps its number. The other GPUs, in the
// order of the driver, fill the lowest numbers that are free; numbers that none has are vacant.
// Once no trainer is left, GPUs are numbered as the driver lists them.
#pragma once

#include "agent/host/host_options.h"
#include "agent/host/roster.h"

namespace shoal::agent {

// Renumbers `gpus` and `core.devices` of the options, and sets `core.vacant`. Changes nothing where
// there are no GPUs, or a replica group of them. Entries of the roster whose processes have ended
// count for nothing.
void keep_numbers(HostOptions& options, const Roster& roster);

}  // namespace shoal::agent
