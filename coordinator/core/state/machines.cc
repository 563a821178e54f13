#include "coordinator/core/state/machines.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "coordinator/core/records/event_kinds.h"

namespace shoal::coordinator {
namespace {

constexpr std::pair<JobPhase, JobPhase> kJobTable[] = {
    {JobPhase::kQueued, JobPhase::kGathering},     {JobPhase::kGathering, JobPhase::kQueued},
    {JobPhase::kGathering, JobPhase::kWarming},    {JobPhase::kWarming, JobPhase::kGathering},
    {JobPhase::kWarming, JobPhase::kTraining},     {JobPhase::kTraining, JobPhase::kStalled},
    {JobPhase::kTraining, JobPhase::kFinalizing},  {JobPhase::kStalled, JobPhase::kTraining},
    {JobPhase::kStalled, JobPhase::kFinalizing},   {JobPhase::kFinalizing, JobPhase::kCompleted},
    {JobPhase::kFinalizing, JobPhase::kStalled},   {JobPhase::kFinalizing, JobPhase::kPaused},
    {JobPhase::kFinalizing, JobPhase::kTraining},  {JobPhase::kQueued, JobPhase::kPaused},
    {JobPhase::kGathering, JobPhase::kPaused},     {JobPhase::kWarming, JobPhase::kPaused},
    {JobPhase::kTraining, JobPhase::kPaused},      {JobPhase::kStalled, JobPhase::kPaused},
    {JobPhase::kPaused, JobPhase::kQueued},        {JobPhase::kQueued, JobPhase::kFinalizing},
    {JobPhase::kGathering, JobPhase::kFinalizing}, {JobPhase::kWarming, JobPhase::kFinalizing},
};

constexpr std::pair<AgentState, AgentState> kAgentTable[] = {
    {AgentState::kJoining, AgentState::kIdle},   {AgentState::kIdle, AgentState::kSyncing},
    {AgentState::kIdle, AgentState::kActive},    {AgentState::kSyncing, AgentState::kActive},
    {AgentState::kSyncing, AgentState::kIdle},   {AgentState::kActive, AgentState::kSyncing},
    {AgentState::kActive, AgentState::kIdle},    {AgentState::kGone, AgentState::kJoining},
    {AgentState::kIdle, AgentState::kJoining},   {AgentState::kSyncing, AgentState::kJoining},
    {AgentState::kActive, AgentState::kJoining}, {AgentState::kDraining, AgentState::kJoining},
    {AgentState::kDraining, AgentState::kIdle},
};

constexpr std::pair<ReplicaState, ReplicaState> kReplicaTable[] = {
    {ReplicaState::kAssigned, ReplicaState::kLoading},
    {ReplicaState::kLoading, ReplicaState::kServing},
    {ReplicaState::kServing, ReplicaState::kAveraging},
    {ReplicaState::kAveraging, ReplicaState::kServing},
    {ReplicaState::kLoading, ReplicaState::kAbsent},
    {ReplicaState::kServing, ReplicaState::kAbsent},
    {ReplicaState::kAveraging, ReplicaState::kAbsent},
    {ReplicaState::kAbsent, ReplicaState::kLoading},
    {ReplicaState::kAbsent, ReplicaState::kServing},
};

constexpr std::pair<RoundState, RoundState> kRoundTable[] = {
    {RoundState::kOpen, RoundState::kFrozen},      {RoundState::kOpen, RoundState::kAborted},
    {RoundState::kFrozen, RoundState::kReducing},  {RoundState::kReducing, RoundState::kVoting},
    {RoundState::kReducing, RoundState::kFrozen},  {RoundState::kReducing, RoundState::kAborted},
    {RoundState::kVoting, RoundState::kCommitted}, {RoundState::kVoting, RoundState::kFrozen},
    {RoundState::kVoting, RoundState::kAborted},   {RoundState::kAborted, RoundState::kOpen},
};

template <typename Table, typename State>
bool in_table(const Table& table, State from, State to) {
  return std::find(std::begin(table), std::end(table), std::pair(from, to)) != std::end(table);
}

template <typename State>
void check_move(Transaction& tx, const char* machine, State from, State to) {
  SHOAL_CHECK(allowed(from, to),
              std::string(machine) + ": " + to_string(from) + " -> " + to_string(to));
  tx.count_transition(machine, to_string(from), to_string(to));
}

Severity severity_of(JobPhase phase) {
  if (phase == JobPhase::kFailed) return Severity::kError;
  return phase == JobPhase::kStalled ? Severity::kWarning : Severity::kInfo;
}

}  // namespace

bool allowed(JobPhase from, JobPhase to) {
  if (to == JobPhase::kCancelled || to == JobPhase::kFailed) return !is_terminal(from);
  return in_table(kJobTable, from, to);
}

bool allowed(AgentState from, AgentState to) {
  if (to == AgentState::kGone || to == AgentState::kDraining) return from != AgentState::kGone;
  return in_table(kAgentTable, from, to);
}

bool allowed(ReplicaState from, ReplicaState to) {
  if (is_terminal(to)) return !is_terminal(from);
  return in_table(kReplicaTable, from, to);
}

bool allowed(RoundState from, RoundState to) { return in_table(kRoundTable, from, to); }

void transition(Transaction& tx, JobId id, JobPhase to, JobReason reason, std::string detail) {
  JobRecord& job = tx.job(id);
  check_move(tx, "job", job.phase, to);
  std::string text = std::string(to_string(job.phase)) + " -> " + to_string(to) + " (" +
                     to_string(reason) + ")" + (detail.empty() ? "" : ": " + detail);
  job.phase = to;
  job.reason = reason;
  job.detail = std::move(detail);
  if (to == JobPhase::kTraining && job.started_at.ns == 0) job.started_at = tx.now();
  if (is_terminal(to)) job.finished_at = tx.now();
  tx.event(severity_of(to), event_kind::kJobPhase, {.job = id, .round = job.committed_round},
           "job " + job.spec.name + " " + text);
}

void set_reason(Transaction& tx, JobId id, JobReason reason, std::string detail) {
  const JobRecord& now = tx.state().jobs.at(id);
  if (now.reason == reason && now.detail == detail) return;
  JobRecord& job = tx.job(id);
  job.reason = reason;
  job.detail = std::move(detail);
}

void transition(Transaction& tx, AgentId id, AgentState to, AgentGone gone) {
  AgentRecord& agent = tx.agent(id);
  check_move(tx, "agent", agent.state, to);
  agent.state = to;
  agent.gone = gone;
}

void transition(Transaction& tx, ReplicaId id, ReplicaState to) {
  ReplicaRecord& replica = tx.replica(id);
  check_move(tx, "replica", replica.state, to);
  replica.state = to;
}

void transition(Transaction& tx, const RoundKey& key, RoundState to) {
  RoundRecord& round = tx.round(key);
  check_move(tx, "round", round.state, to);
  round.state = to;
}

}  // namespace shoal::coordinator
