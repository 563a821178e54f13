// Collects what placement.h needs from the coordinator's state. The job itself (jobs.cc) places
// replicas on free devices, because it may end or roll back; moving.h moves them.
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

// Events for the free devices that this job passes over: once for each whose memory is too small,
// when others train; for each that would slow the pipeline down, and again when the forecast with
// it has changed by a quarter.
void tell_unused(Transaction& tx, JobId job, const PlacementInput& input,
                 const PlacementDecision& decision);

}  // namespace shoal::coordinator
