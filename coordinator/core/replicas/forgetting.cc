#include "coordinator/core/replicas/forgetting.h"

#include <algorithm>
#include <optional>

#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/replicas/agents.h"
#include "coordinator/core/replicas/copies.h"
#include "coordinator/core/replicas/replicas.h"

namespace shoal::coordinator {
namespace {

Error refused(std::string message, std::string remedy) {
  return {Code::kConflict, std::move(message), "agent", std::move(remedy)};
}

bool is_of(const State& state, const std::vector<ReplicaId>& replicas, AgentId agent) {
  return std::ranges::any_of(replicas,
                             [&](ReplicaId id) { return state.replicas.at(id).agent == agent; });
}

// A stage of this job that no reachable replica holds, but this agent may. None: there is no such
// stage.
std::optional<StageIndex> held_alone(const State& state, const JobRecord& job, AgentId agent) {
  for (StageIndex stage = 0; stage < stage_count(job); ++stage) {
    const bool within_reach = !in_sync_replicas(state, job, stage).empty() ||
                              !copies_of_committed(state, job, stage).empty();
    if (within_reach) continue;
    if (is_of(state, absent_in_sync_replicas(state, job, stage), agent)) return stage;
    if (is_of(state, keepers_unheard(state, job, stage), agent)) return stage;
  }
  return std::nullopt;
}

std::optional<Error> why_not(const State& state, const AgentRecord& agent) {
  if (const Presence* presence = state.presence.find(agent.id);
      agent.state != AgentState::kGone && presence != nullptr && !presence->connected) {
    return refused("agent " + agent.name + " may still return: its lease is not over yet",
                   "try again in a few seconds, when `shoal agent ls` no longer lists it");
  }
  if (agent.state != AgentState::kGone) {
    return refused("agent " + agent.name + " is connected",
                   "drain it, stop shoal-agent on its host, and try again when it is gone");
  }
  for (const auto& [id, restoring] : state.restoring) {
    const bool claims = std::ranges::any_of(
        restoring.claims, [&](const Claim& claim) { return claim.agent == agent.id; });
    if (!claims) continue;
    return refused("agent " + agent.name + " holds newer rounds of job " +
                       state.jobs.at(id).spec.name + " than this database",
                   "wait until the job continues, or cancel it");
  }
  for (const auto& [id, timers] : state.timers) {
    const JobRecord& job = state.jobs.at(id);
    const auto stage = held_alone(state, job, agent.id);
    if (!stage) continue;
    return refused("agent " + agent.name + " may hold the newest state of stage " +
                       std::to_string(*stage) + " of job " + job.spec.name +
                       ", and no agent within reach does",
                   "bring it back, wait until the job continues without it, or cancel the job");
  }
  return std::nullopt;
}

void forget(Transaction& tx, AgentId id) {
  std::vector<ReplicaId> absent;
  for (const auto& [replica, record] : tx.state().replicas) {
    if (record.agent == id) absent.push_back(replica);
  }
  for (const ReplicaId replica : absent) {
    let_go(tx, replica, ReleaseReason::kReplaced, ContributionState::kLost);
  }
  forget_refusals(tx, id);
  const AgentRecord agent = tx.state().agents.at(id);
  Incarnation& floor = tx.counters().incarnation_floor;
  floor = std::max(floor, agent.incarnation);
  tx.event(Severity::kInfo, event_kind::kAgentForgotten, {.agent = id},
           "agent " + agent.name + " is forgotten: an operator has removed it");
  tx.forget_agent(id);
}

}  // namespace

void on_forget_agent(Transaction& tx, const CommandAgent& command) {
  const AgentRecord* agent = tx.state().agents.find(command.agent);
  if (agent == nullptr) {
    const Error error{Code::kNotFound, "there is no " + to_string(command.agent), "agent",
                      "`shoal agent ls` lists the agents"};
    return tx.reply(command.request, error);
  }
  if (auto error = why_not(tx.state(), *agent)) return tx.reply(command.request, *error);
  forget(tx, command.agent);
  tx.reply(command.request, JobId());
}

}  // namespace shoal::coordinator
