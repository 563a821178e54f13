// Which agent serves which stage: weighted machine covering. The capacity of a stage is the speed
// of its replicas over its work; the throughput of the pipeline is the smallest capacity, so that
// is what is made large: agents longest-first to the weakest stage (LPT), then moves and swaps
// while they help. An agent may hold several stages, with memory for all of them, and divides its
// speed (sharing.h); that is done only when there are too few agents otherwise, or when the
// throughput grows by a quarter, because every further stage costs a process, a context and a
// second set of states. Pure; equal input gives an equal result, in the order of the agents given.
// Other files decide which agents may be used at all, and when to move.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/enumerators.h"
#include "base/ids.h"
#include "base/units.h"

namespace shoal::swarm {

using shoal::to_string;

struct AssignableAgent {
  AgentId id;
  double speed = 0;  // FLOP/s, already multiplied by its availability
  Bytes memory;
  std::string domain;  // failure domain: `region=`, host; empty: a domain of its own
  double group = 1;    // times its speed, with the whole model: a replica group
};

struct StageNeed {
  double work = 0;  // FLOPs per token, forward and backward
  Bytes memory;     // of one replica
};

struct AssignmentOptions {
  std::int32_t min_replicas = 1;
  std::int32_t max_replicas = 0;  // per stage, 0: no limit; the slowest agents are then left over
  bool several_stages_per_agent = true;  // where it is needed or pays
};

// One replica: the agent gives this share of its speed to the stage.
struct Placement {
  std::int32_t agent = 0;  // index into the agents given
  StageIndex stage = 0;
  double share = 1;
  bool operator==(const Placement&) const = default;
};

enum class AssignmentReason {
  kPlaced,
  kNoAgents,
  kTooFewAgents,    // fewer replicas can exist than stages * min_replicas
  kMemoryTooSmall,  // the stage in `stage` fits on too few agents
};
constexpr auto enumerators_of(Of<AssignmentReason>) {
  using enum AssignmentReason;
  return enumerators<AssignmentReason>({{kPlaced, "placed"},
                                        {kNoAgents, "no_agents"},
                                        {kTooFewAgents, "too_few_agents"},
                                        {kMemoryTooSmall, "memory_too_small"}});
}

struct AssignmentResult {
  AssignmentReason reason = AssignmentReason::kNoAgents;
  StageIndex stage = -1;                  // where it failed
  std::int32_t replicas_missing = 0;      // there
  std::vector<Placement> placements;      // by stage, then agent
  std::vector<double> capacity;           // tokens/s per stage
  double throughput = 0;                  // the smallest capacity
  double bound = 0;                       // total speed over total work: no assignment is better
  std::int32_t stages_in_one_domain = 0;  // with two or more replicas and nothing to spread them
  std::int32_t moves = 0, swaps = 0;
  bool ok() const { return reason == AssignmentReason::kPlaced; }
};

// O(agents * (stages + log agents)) and a bounded number of improvements of the same cost.
AssignmentResult assign_agents(const std::vector<AssignableAgent>& agents,
                               const std::vector<StageNeed>& stages,
                               const AssignmentOptions& options);

}  // namespace shoal::swarm
