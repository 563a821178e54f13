// Which job gets devices first, and what a job takes from those of lower priority.
//
// Jobs are handled by priority, then by age, and each takes the free devices that it can use. A job
// that lacks min_replicas for Options::preempt_after claims devices: as few jobs of lower priority
// as are enough, the lowest and then the youngest first, yield to it. A job that yields finishes
// its round, stores a checkpoint, releases its devices (jobs.cc, as for a pause) and is queued
// again. While a job claims devices, no job behind it takes any, so the released devices reach the
// job that claimed them. Jobs of the same priority never take devices from each other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// A higher priority, or the same and older.
bool comes_before(const JobRecord& a, const JobRecord& b);

// The live jobs, in the order in which they are given devices.
std::vector<JobId> jobs_in_order(const State& state);

// Decides whether this job claims devices, and who yields to it. Called after each look at a job.
void claim_devices(Transaction& tx, JobId job);

// Called before each look at a job: one that yields lets its devices go as soon as nothing is to be
// kept first, or keeps them because nobody claims them any more.
void follow_claim(Transaction& tx, JobId job);

// What is free now is for a job that comes before; one that is queued says so.
bool is_withheld(Transaction& tx, JobId job);

// False: no job of higher priority has the devices that this one waits for. `missing`: so many of
// them; 0: not known.
bool explain_priority(Transaction& tx, JobId job, std::int64_t missing);

// For people, after why a job waits: who yields to it; may be empty.
std::string who_yields(const State& state, JobId job);

}  // namespace shoal::coordinator
