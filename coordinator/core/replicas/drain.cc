#include "coordinator/core/replicas/drain.h"

#include <algorithm>

#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/replicas/agents.h"
#include "coordinator/core/replicas/replicas.h"
#include "coordinator/core/state/machines.h"
#include "coordinator/core/state/round_facts.h"
#include "coordinator/core/state/standing.h"

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
  return is_leaving(turn.state(), replica) &&
         others_of_stage(turn.state(), replica) >=
             std::max<std::int64_t>(1, job.spec.swarm.min_replicas);
}

// The operator wants it to leave, and what it trains does not count before it has reported.
bool owes_a_report(const State& state, const ReplicaRecord& replica) {
  const JobRecord& job = state.jobs.at(replica.job);
  const ContributionRecord* known =
      state.contributions.find({RoundKey{job.id, job.lineage, job.committed_round}, replica.id});
  const bool drained = state.agents.at(replica.agent).state == AgentState::kDraining;
  return drained && known != nullptr && known->state == ContributionState::kLate;
}

bool works(const State& state, AgentId agent) {
  return std::any_of(state.replicas.begin(), state.replicas.end(),
                     [&](const auto& entry) { return entry.second.agent == agent; });
}

void release_drained(Turn& turn, ReplicaId id) {
  const AgentId agent = turn.state().replicas.at(id).agent;
  let_go(turn, id, ReleaseReason::kDraining, ContributionState::kLost);
  const bool draining = turn.state().agents.at(agent).state == AgentState::kDraining;
  if (!draining || works(turn.state(), agent)) return;
  say(turn, agent, event_kind::kAgentDrained, "is drained: it has no replica any more");
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

void release_drained_loaders(Turn& turn, JobId job) {
  for (const ReplicaId id : live_replicas(turn.state(), job)) {
    const ReplicaRecord& replica = turn.state().replicas.at(id);
    if (is_loading(replica) && may_go(turn, replica)) release_drained(turn, id);
  }
}

void release_drained_reducers(Turn& turn, JobId job) {
  const RoundKey key = next_key(turn.state().jobs.at(job));
  for (const ReplicaId id : live_reducers(turn.state(), job)) {
    const ReplicaRecord& replica = turn.state().replicas.at(id);
    const ContributionRecord* part = turn.state().contributions.find({key, id});
    const bool busy = part != nullptr && part->member_index >= 0;
    if (is_leaving(turn.state(), replica) && !busy) release_drained(turn, id);
  }
}

void release_drained_at_commit(Turn& turn, JobId job) {
  if (turn.state().jobs.at(job).phase != JobPhase::kTraining) return;
  for (const ReplicaId id : holders(turn.state(), turn.state().jobs.at(job))) {
    const ReplicaRecord& replica = turn.state().replicas.at(id);
    if (may_go(turn, replica) && !owes_a_report(turn.state(), replica)) release_drained(turn, id);
  }
}

}  // namespace shoal::coordinator
