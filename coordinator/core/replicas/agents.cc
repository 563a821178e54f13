#include "coordinator/core/replicas/agents.h"

#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/replicas/device_failures.h"
#include "coordinator/core/state/health_record.h"
#include "coordinator/core/state/machines.h"
#include "swarm/core/plan/cost_model.h"

namespace shoal::coordinator {
namespace {

// The memory of this replica and of those beside it on its device.
Bytes memory_with(const State& state, const ReplicaRecord& replica) {
  const JobRecord& job = state.jobs.at(replica.job);
  const swarm::CostModel model(job.spec, swarm::cost_options(job.spec));
  Bytes sum = model.memory(stage_of(job, replica.stage).units);
  for (const auto& [id, other] : state.replicas) {
    const bool beside =
        id != replica.id && other.agent == replica.agent && other.device == replica.device;
    if (beside) sum += model.memory(stage_of(job, other.stage).units);
  }
  return sum;
}

}  // namespace

void refresh_agent(Transaction& tx, AgentId id) {
  const AgentRecord& agent = tx.state().agents.at(id);
  if (agent.state == AgentState::kGone || agent.state == AgentState::kDraining ||
      agent.state == AgentState::kJoining) {
    return;
  }
  AgentState wanted = AgentState::kIdle;
  for (const auto& [replica_id, replica] : tx.state().replicas) {
    if (replica.agent != id) continue;
    const bool loading =
        replica.state == ReplicaState::kAssigned || replica.state == ReplicaState::kLoading;
    if (!loading) wanted = AgentState::kActive;
    if (loading && wanted == AgentState::kIdle) wanted = AgentState::kSyncing;
  }
  if (agent.state != wanted) transition(tx, id, wanted);
}

void record_violation(Transaction& tx, AgentId id, RejectReason reason) {
  AgentRecord& agent = tx.agent(id);
  const bool before = is_quarantined(agent);
  const HealthRecord next = after_violation(agent.health_record, reason, tx.now(), tx.options());
  if (before) return;  // its last rounds, before its replicas are released
  agent.health_record = next;
  if (!is_quarantined(agent)) return;
  const Duration time = agent.health_record.quarantined_until - tx.now();
  const std::string why = reason == RejectReason::kFalseAverage
                              ? "it averaged falsely"
                              : std::to_string(tx.options().quarantine_violations) +
                                    " contributions were rejected (" + to_string(reason) + ")";
  tx.event(Severity::kWarning, event_kind::kAgentQuarantined, {.agent = id},
           "agent " + agent.name + " is quarantined for " + std::to_string(time.ms() / 1000) +
               " s: " + why);
}

void end_quarantine(Transaction& tx, AgentId id, const std::string& why) {
  tx.agent(id).health_record.quarantined_until = {};
  tx.event(Severity::kInfo, event_kind::kAgentQuarantineEnded, {.agent = id},
           "agent " + tx.state().agents.at(id).name + " may work again: " + why);
}

void on_out_of_memory(Transaction& tx, const ReplicaRecord& replica) {
  const TrainerSpec& trainer = tx.state().jobs.at(replica.job).spec.trainer;
  const Bytes needed = memory_with(tx.state(), replica);
  remember_refusal(tx.agent(replica.agent), trainer,
                   {.device = replica.device, .needed = needed, .at = tx.now()});
}

template <typename Refusals, typename Which>
void forget_if(Refusals& refusals, Which which) {
  std::vector<std::pair<JobId, AgentId>> forgotten;
  for (const auto& [who, refusal] : refusals) {
    if (which(who)) forgotten.push_back(who);
  }
  for (const auto& who : forgotten) refusals.erase(who);
}

template <typename Which>
void forget_refusals_if(Transaction& tx, Which which) {
  forget_if(tx.volatile_state().refusals, which);
  forget_if(tx.volatile_state().slow_lines, which);
}

void forget_refusals(Transaction& tx, AgentId agent) {
  forget_refusals_if(tx, [&](const auto& who) { return who.second == agent; });
}

void forget_refusals(Transaction& tx, JobId job) {
  forget_refusals_if(tx, [&](const auto& who) { return who.first == job; });
}

bool refuses(const Transaction& tx, JobId job, AgentId agent) {
  const LoadRefusal* said = tx.state().refusals.find({job, agent});
  if (said == nullptr) return false;
  return said->ask_again_at.ns == 0 || tx.now() < said->ask_again_at;
}

void forgive(Transaction& tx, AgentId id) {
  forget_refusals(tx, id);
  forget_device_failures(tx, id);
  const AgentRecord& before = tx.state().agents.at(id);
  const bool quarantined = is_quarantined(before);
  if (before.refusals.empty() && before.health_record == HealthRecord()) return;
  if (quarantined) end_quarantine(tx, id, "an operator has lifted its quarantine");
  AgentRecord& agent = tx.agent(id);
  agent.health_record = {};
  agent.refusals.clear();
}

bool is_leaving(const State& state, const ReplicaRecord& replica) {
  const AgentRecord* agent = state.agents.find(replica.agent);
  return agent != nullptr && (agent->state == AgentState::kDraining || is_quarantined(*agent) ||
                              unhealthy_of(*agent, replica.device) != nullptr);
}

bool is_within_reach(const State& state, ReplicaId id) {
  const ReplicaRecord* replica = state.replicas.find(id);
  const Presence* presence = replica == nullptr ? nullptr : state.presence.find(replica->agent);
  return presence != nullptr && presence->connected;
}

}  // namespace shoal::coordinator
