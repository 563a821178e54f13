#include "coordinator/core/replicas/drain.h"

#include <algorithm>

#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/replicas/agents.h"
#include "coordinator/core/replicas/device_failures.h"
#include "coordinator/core/replicas/forgetting.h"
#include "coordinator/core/replicas/replicas.h"
#include "coordinator/core/state/health_record.h"
#include "coordinator/core/state/machines.h"
#include "coordinator/core/state/round_facts.h"

namespace shoal::coordinator {
namespace {

void say(Transaction& tx, AgentId agent, const char* kind, const std::string& what) {
  tx.event(Severity::kInfo, kind, {.agent = agent},
           "agent " + tx.state().agents.at(agent).name + " " + what);
}

void cordon(Transaction& tx, AgentId id) {
  if (tx.state().agents.at(id).cordoned) return;
  tx.agent(id).cordoned = true;
  say(tx, id, event_kind::kAgentCordoned, "is cordoned: it gets no new replicas");
}

void uncordon(Transaction& tx, AgentId id) {
  const AgentRecord& agent = tx.state().agents.at(id);
  const bool device = has_cordoned_device(agent);
  forgive(tx, id);
  const bool draining = agent.state == AgentState::kDraining;
  if (!agent.cordoned && !draining && !device) return;
  tx.agent(id).cordoned = false;
  if (draining) transition(tx, id, AgentState::kIdle);
  refresh_agent(tx, id);
  say(tx, id, event_kind::kAgentUncordoned, "is back in service");
}

bool works(const State& state, AgentId agent) {
  return std::any_of(state.replicas.begin(), state.replicas.end(),
                     [&](const auto& entry) { return entry.second.agent == agent; });
}

void say_if_drained(Transaction& tx, AgentId id) {
  const bool draining = tx.state().agents.at(id).state == AgentState::kDraining;
  if (!draining || works(tx.state(), id)) return;
  say(tx, id, event_kind::kAgentDrained, "is drained: it has no replica any more");
}

void drain(Transaction& tx, AgentId id) {
  cordon(tx, id);
  if (tx.state().agents.at(id).state == AgentState::kDraining) return;
  transition(tx, id, AgentState::kDraining);
  say(tx, id, event_kind::kAgentDraining, "is being drained");
  say_if_drained(tx, id);
}

bool is_loading(const ReplicaRecord& replica) {
  return replica.state == ReplicaState::kAssigned || replica.state == ReplicaState::kLoading;
}

// How many other replicas of its stage would continue: in-sync ones if this replica trains, live
// ones if it loads.
std::int64_t others_of_stage(const State& state, const ReplicaRecord& leaving) {
  const auto ids = is_loading(leaving) ? live_replicas(state, leaving.job)
                                       : in_sync_replicas(state, state.jobs.at(leaving.job));
  return std::count_if(ids.begin(), ids.end(), [&](ReplicaId id) {
    return id != leaving.id && state.replicas.at(id).stage == leaving.stage;
  });
}

bool may_go(const Transaction& tx, const ReplicaRecord& replica) {
  const JobRecord& job = tx.state().jobs.at(replica.job);
  return is_leaving(tx.state(), replica) &&
         others_of_stage(tx.state(), replica) >=
             std::max<std::int64_t>(1, job.spec.swarm.min_replicas);
}

// Whether the replica must report before it leaves, because what it trained would not count
// otherwise.
bool owes_a_report(const State& state, const ReplicaRecord& replica) {
  const JobRecord& job = state.jobs.at(replica.job);
  const ContributionRecord* known =
      state.contributions.find({RoundKey{job.id, job.epoch, job.committed_round}, replica.id});
  const bool counts = !is_quarantined(state.agents.at(replica.agent));
  return counts && known != nullptr && known->state == ContributionState::kLate;
}

void release_drained(Transaction& tx, ReplicaId id) {
  const AgentId agent = tx.state().replicas.at(id).agent;
  let_go(tx, id, ReleaseReason::kDraining, ContributionState::kLost);
  say_if_drained(tx, agent);
}

}  // namespace

void on_command_agent(Transaction& tx, const CommandAgent& command) {
  if (command.verb == AgentVerb::kForget) return on_forget_agent(tx, command);
  const AgentRecord* agent = tx.state().agents.find(command.agent);
  if (agent == nullptr) {
    const Error error{Code::kNotFound, "there is no " + to_string(command.agent), "agent",
                      "`shoal agent ls` lists the agents"};
    return tx.reply(command.request, error);
  }
  if (command.verb == AgentVerb::kRevoked) {
    tx.event(Severity::kWarning, event_kind::kAgentRevoked, {.agent = agent->id},
             "agent " + agent->name + " is revoked: it and its replicas are no longer trusted");
    return tx.reply(command.request, JobId());
  }
  if (agent->state == AgentState::kGone) {
    const Error error{Code::kConflict, "agent " + agent->name + " is gone", "agent",
                      "it can be cordoned when it has joined again"};
    return tx.reply(command.request, error);
  }
  switch (command.verb) {
    case AgentVerb::kCordon:
      cordon(tx, command.agent);
      break;
    case AgentVerb::kUncordon:
      uncordon(tx, command.agent);
      break;
    case AgentVerb::kDrain:
      drain(tx, command.agent);
      break;
    case AgentVerb::kForget:
    case AgentVerb::kRevoked:
      break;  // handled above, because they also apply to agents that are gone
  }
  tx.reply(command.request, JobId());
}

void release_drained_loaders(Transaction& tx, JobId job) {
  for (const ReplicaId id : live_replicas(tx.state(), job)) {
    const ReplicaRecord& replica = tx.state().replicas.at(id);
    if (is_loading(replica) && may_go(tx, replica)) release_drained(tx, id);
  }
}

void release_drained_reducers(Transaction& tx, JobId job) {
  const RoundKey key = next_key(tx.state().jobs.at(job));
  for (const ReplicaId id : live_reducers(tx.state(), job)) {
    const ReplicaRecord& replica = tx.state().replicas.at(id);
    const ContributionRecord* part = tx.state().contributions.find({key, id});
    const bool busy = part != nullptr && part->member_index >= 0;
    if (is_leaving(tx.state(), replica) && !busy) release_drained(tx, id);
  }
}

void release_drained_at_commit(Transaction& tx, JobId job) {
  if (tx.state().jobs.at(job).phase != JobPhase::kTraining) return;
  for (const ReplicaId id : in_sync_replicas(tx.state(), tx.state().jobs.at(job))) {
    const ReplicaRecord& replica = tx.state().replicas.at(id);
    if (may_go(tx, replica) && !owes_a_report(tx.state(), replica)) release_drained(tx, id);
  }
}

}  // namespace shoal::coordinator
