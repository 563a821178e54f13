// Collects what placement.h needs from the coordinator's state, and carries out the moves that it
// decides. The job itself (jobs.cc) places replicas on free devices, because it may end or roll
// back.
#pragma once

#include <string>
#include <vector>

#include "coordinator/core/decisions/placement.h"
#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// What fails together: agents with the same label "region", else those of one host.
std::string domain_of(const AgentRecord& agent);
// The share of its time that the agent was connected; close to 0 while it is unreachable.
double availability_of(const Transaction& tx, const AgentRecord& agent);

// `job.id` zero: a job that was not submitted yet. The jobs in `gone` count as holding no device.
PlacementInput placement_input(const Transaction& tx, const JobRecord& job,
                               const std::vector<JobId>& gone = {});

// What would be placed now. With one stage a job gathers what there is; here that is not enough.
PlacementDecision plan_job(const Transaction& tx, const JobSpec& spec,
                           const std::string& owner = {});

// None: an agent that is here may run the program of the job, or none is here yet.
std::optional<ProgramRefusal> why_no_agent_runs(const Transaction& tx, const JobSpec& spec,
                                                const std::string& owner);

// Empty when the known devices could train it if they were free, or more of their kind.
std::string why_no_device_fits(const Transaction& tx, const JobSpec& spec);

// An event about the agents that are here and may not run the program of the job; of each once, as
// long as it allows the same.
void tell_not_run(Transaction& tx, JobId job);

// An event, once for each free device that this job passes over because its memory is too small.
void tell_too_small(Transaction& tx, JobId job, const PlacementInput& input,
                    const PlacementDecision& decision);

// A move is the release of the replica; its device then goes where it is lacking, as any free one.
// At once, when a stage is below min_replicas and no free device is there for it:
void move_in_emergency(Transaction& tx, JobId job);
// Every Options::rebalance_every, right after the outer step, when a new source is known. A replica
// that shares its device and is of no use any more is released after every round:
void move_for_balance(Transaction& tx, JobId job);

}  // namespace shoal::coordinator
