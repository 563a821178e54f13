// Chooses who keeps copies of the stages of a job (checkpoint.buddies): a pure decision from the
// part that each agent has in the job. A copy is worth something when it outlives the replicas of
// its stage, so its keeper does not serve the stage and, if possible, is in a failure domain
// (region, else host) of neither a replica nor another keeper of the stage.
//
//   keepers that still can keep   stay: a copy that is moved is fetched again
//   missing ones                  another domain before another agent of a domain that serves, then
//                                 the one that keeps the fewest bytes, has been most available, and
//                                 has the lowest id
//
// An agent keeps at most Keeper::room bytes in all. A stage that nobody can keep goes without.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "job/job_spec.h"

namespace shoal::coordinator {

struct Keeper {
  AgentId agent;
  std::string domain;
  bool can_keep = true;     // it is here, and nothing is held against it
  double availability = 1;  // share of its time that it was here
  Bytes room;               // for copies of this job, those that it keeps included
};

struct CopiedStage {
  Bytes size;
  std::vector<AgentId> serving;  // agents with a replica of it
  std::vector<AgentId> keeping;  // who keeps a copy, or was told to
};

struct BuddiesInput {
  std::int64_t wanted = 0;  // checkpoint.buddies
  std::vector<Keeper> agents;
  std::vector<CopiedStage> stages;
};

struct BuddiesDecision {
  std::vector<std::vector<AgentId>> keepers;  // by stage, in order
  std::vector<std::int64_t> missing;          // by stage: so many more are wanted
};

BuddiesDecision decide_buddies(const BuddiesInput& input);

}  // namespace shoal::coordinator
