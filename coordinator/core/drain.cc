#include "coordinator/core/drain.h"

#include <algorithm>

#include "coordinator/core/checkpoints.h"
#include "coordinator/core/event_kinds.h"
#include "coordinator/core/machines.h"
#include "coordinator/core/membership.h"
#include "coordinator/core/replicas.h"
#include "coordinator/core/rounds.h"
#include "coordinator/core/standing.h"

namespace shoal::coordinator {
namespace {

void say(Turn& turn, AgentId agent, const char* kind, const std::string& what) {
  turn.event(Severity::kInfo, kind, {.agent = agent},
             "agent " + turn.state().agents.at(agent).name + " " + what);
}

void cordon(Turn& turn, AgentId id) {
  if (turn.state().agents.at(id).cordoned) return;
  turn.agent(id).cordoned = true;
  say(turn, id, event_kind::kAgentCordoned, "is cordoned: it gets no new replicas");
}

void uncordon(Turn& turn, AgentId id) {
  forgive(turn, id);
  const AgentRecord& agent = turn.state().agents.at(id);
  const bool draining = agent.state == AgentState::kDraining;
  if (!agent.cordoned && !draining) return;
  turn.agent(id).cordoned = false;
  if (draining) transition(turn, id, AgentState::kIdle);
  refresh_agent(turn, id);
  say(turn, id, event_kind::kAgentUncordoned, "is put back to work");
}

void drain(Turn& turn, AgentId id) {
  cordon(turn, id);
  if (turn.state().agents.at(id).state == AgentState::kDraining) return;
  transition(turn, id, AgentState::kDraining);
  say(turn, id, event_kind::kAgentDraining, "is being drained");
}

bool is_loading(const ReplicaRecord& replica) {
  return replica.state == ReplicaState::kAssigned || replica.state == ReplicaState::kLoading;
}

// Others of its stage that would go on: holders for one that trains, live ones for one that loads.
std::int64_t others_of_stage(const State& state, const ReplicaRecord& leaving) {
  const auto ids = is_loading(leaving) ? live_replicas(state, leaving.job)
                                       : holders(state, state.jobs.at(leaving.job));
  return std::count_if(ids.begin(), ids.end(), [&](ReplicaId id) {
    return id != leaving.id && state.replicas.at(id).stage == leaving.stage;
  });
}

bool may_go(const Turn& turn, const ReplicaRecord& replica) {
  const JobRecord& job = turn.state().jobs.at(replica.job);
  if (!is_leaving(turn.state(), replica)) return false;
  const bool at_commit = job.phase == JobPhase::kTraining && turn.now() == job.committed_at;
  if (!is_loading(replica) && !at_commit) return false;
  return others_of_stage(turn.state(), replica) >=
         std::max<std::int64_t>(1, job.spec.swarm.min_replicas);
}

bool works(const State& state, AgentId agent) {
  return std::any_of(state.replicas.begin(), state.replicas.end(),
                     [&](const auto& entry) { return entry.second.agent == agent; });
}

}  // namespace

void on_command_agent(Turn& turn, const CommandAgent& command) {
  const AgentRecord* agent = turn.state().agents.find(command.agent);
  if (agent == nullptr) {
    const Error error{Code::kNotFound, "there is no " + to_string(command.agent), "agent", ""};
    return turn.reply(command.request, error);
  }
  if (agent->state == AgentState::kGone) {
    const Error error{Code::kConflict, "agent " + agent->name + " is gone", "agent",
                      "it can be cordoned when it has joined again"};
    return turn.reply(command.request, error);
  }
  switch (command.verb) {
    case AgentVerb::kCordon:
      cordon(turn, command.agent);
      break;
    case AgentVerb::kUncordon:
      uncordon(turn, command.agent);
      break;
    case AgentVerb::kDrain:
      drain(turn, command.agent);
      break;
  }
  turn.reply(command.request, JobId());
}

void release_drained(Turn& turn, JobId job) {
  for (const ReplicaId id : live_replicas(turn.state(), job)) {
    const ReplicaRecord leaving = turn.state().replicas.at(id);
    if (!may_go(turn, leaving)) continue;
    release_replica(turn, id, ReleaseReason::kDraining);
    leave_round(turn, leaving);
    leave_checkpoints(turn, leaving);
    const bool draining = turn.state().agents.at(leaving.agent).state == AgentState::kDraining;
    if (!draining || works(turn.state(), leaving.agent)) continue;
    say(turn, leaving.agent, event_kind::kAgentDrained, "is drained: it has no replica any more");
  }
}

bool is_leaving(const State& state, const ReplicaRecord& replica) {
  const AgentRecord* agent = state.agents.find(replica.agent);
  return agent != nullptr && (agent->state == AgentState::kDraining || is_quarantined(*agent));
}

}  // namespace shoal::coordinator
