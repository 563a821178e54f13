#include "coordinator/core/restoring.h"

#include <algorithm>

#include "coordinator/core/decisions/restored_round.h"
#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/releases.h"
#include "coordinator/core/replicas/agents.h"
#include "coordinator/core/replicas/replicas.h"
#include "coordinator/core/rounds/rounds.h"
#include "coordinator/core/state/machines.h"
#include "coordinator/core/state/naming.h"
#include "coordinator/core/state/round_facts.h"

namespace shoal::coordinator {
namespace {

bool is_ahead(const JobRecord& job, const RoundKey& key) {
  return std::pair(key.lineage, key.round) > std::pair(job.lineage, job.committed_round);
}

bool knows_cut(const JobRecord& job) { return !job.stages.empty() || job.spec.swarm.stages == 1; }

bool is_connected(const State& state, AgentId agent) {
  const Presence* presence = state.presence.find(agent);
  return presence != nullptr && presence->connected;
}

// Whoever was there when the database was made has returned or is taken for absent, and those who
// came later have had time to find their way.
Instant decision_due(const Turn& turn, const Restoring& restoring) {
  const State& state = turn.state();
  const bool all_here =
      std::ranges::all_of(state.presence, [](const auto& entry) { return entry.second.connected; });
  const Options& options = turn.options();
  return restoring.since + (all_here ? options.return_grace * 2 : options.boot_grace);
}

void keep_ids_apart(Turn& turn, const HeldReplica& held) {
  const CounterRecord& known = turn.state().counters;
  const std::uint64_t replica =
      std::max({known.next_replica, held.replica.n + 1, held.record.next_replica});
  const std::uint64_t checkpoint = std::max(known.next_checkpoint, held.record.next_checkpoint);
  if (replica == known.next_replica && checkpoint == known.next_checkpoint) return;
  turn.counters().next_replica = replica;
  turn.counters().next_checkpoint = checkpoint;
}

std::vector<Claim> claims_at_hand(const State& state, JobId id) {
  std::vector<Claim> claims = state.restoring.at(id).claims;
  std::erase_if(claims, [&](const Claim& claim) { return !is_connected(state, claim.agent); });
  return claims;
}

// What the restored records say of replicas is of the past.
void drop_replicas(Turn& turn, JobId id, const std::vector<Claim>& kept) {
  std::vector<ReplicaId> all = live_replicas(turn.state(), id);
  for (const auto& more : {absent_replicas(turn.state(), id), live_reducers(turn.state(), id)}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  for (const ReplicaId replica : all) {
    const ReplicaRecord& record = turn.state().replicas.at(replica);
    const bool stays = std::ranges::any_of(kept, [&](const Claim& claim) {
      return claim.held.replica == replica && claim.held.store == record.store;
    });
    if (stays) {
      turn.drop_replica(replica);
    } else {
      fail_replica(turn, replica, ReplicaFailure::kStale, "its cluster has gone on without it");
    }
  }
}

void release_claims(Turn& turn, const std::vector<Claim>& claims) {
  for (const Claim& claim : claims) {
    turn.send(claim.agent, Release{claim.held.replica, ReleaseReason::kReplaced});
  }
}

void take_over_records(Turn& turn, JobId id, const RestoredRound& round,
                       const std::vector<Claim>& claims) {
  const CommitRecord& commit = claims[round.holders.front()].held.record;
  JobRecord& job = turn.job(id);
  job.lineage = std::max(job.lineage, round.key.lineage) + 1;
  job.committed_round = round.key.round;
  job.committed_at = turn.now();
  job.committed_step = commit.step;
  job.committed_tokens = commit.tokens;
  job.next_sequence = commit.next_sequence;
  job.returned = commit.returned;
  if (commit.outer_lr > 0) job.outer_lr = commit.outer_lr;
  job.failures_in_row = 0;
  if (job.stages.empty()) {
    job.stages.push_back({.units = whole_model(job.spec).front(), .anchor = {}, .momentum = {}});
  }
  for (const std::size_t holder : round.holders) {
    const HeldReplica& held = claims[holder].held;
    JobStage& stage = stage_of(job, held.stage);
    stage.anchor = held.anchor;
    stage.momentum = held.momentum;
    stage.value_count = held.value_count;
    stage.fragments = held.fragments;
  }
}

// What the rounds that follow look at of the one before.
void note_committed_round(Turn& turn, JobId id, const CommitRecord& commit) {
  const JobRecord& job = turn.state().jobs.at(id);
  RoundRecord round;
  round.key = {id, job.lineage, job.committed_round};
  round.state = RoundState::kCommitted;
  round.from_step = round.to_step = commit.step;
  round.opened_at = round.sealed_at = round.committed_at = turn.now();
  round.outer_lr = commit.outer_lr;
  round.carried_steps = commit.carried_steps;
  round.job_tokens = commit.tokens;
  round.stages.resize(std::max(commit.averages.size(), job.stages.size()));
  for (std::size_t i = 0; i < commit.averages.size(); ++i) {
    round.stages[i].average = commit.averages[i];
    if (i < commit.anchors.size()) round.stages[i].base = commit.anchors[i];
    if (i < commit.momenta.size()) round.stages[i].base_momentum = commit.momenta[i];
  }
  turn.add(std::move(round));
}

// Under the id that it has, which nobody else has got meanwhile.
void take_over_replica(Turn& turn, const Claim& claim) {
  const JobRecord& job = turn.state().jobs.at(claim.held.job);
  ReplicaRecord replica;
  replica.id = claim.held.replica;
  replica.job = job.id;
  replica.agent = claim.agent;
  replica.incarnation = turn.state().agents.at(claim.agent).incarnation;
  replica.device = claim.held.device;
  replica.stage = claim.held.stage;
  replica.state = ReplicaState::kServing;
  replica.source.key = {job.id, job.lineage, job.committed_round};
  replica.address = claim.held.address;
  replica.lineage = job.lineage;
  replica.held_round = job.committed_round;
  replica.anchor = claim.held.anchor;
  replica.momentum = claim.held.momentum;
  replica.store = claim.held.store;
  replica.created_at = turn.now();
  const ReplicaId id = turn.add(std::move(replica)).id;
  turn.tell(id,
            ResumeAt{{job.id, job.lineage, job.committed_round}, commit_record(turn.state(), job)});
  refresh_agent(turn, claim.agent);
}

// The phases that lie between what the backup knew and what is.
void bring_to_training(Turn& turn, JobId id) {
  turn.job(id).desired = JobDesired::kRun;
  const auto go = [&](JobPhase from, JobPhase to, JobReason reason) {
    if (turn.state().jobs.at(id).phase == from) transition(turn, id, to, reason);
  };
  go(JobPhase::kPaused, JobPhase::kQueued, JobReason::kWaitingForReplicas);
  go(JobPhase::kQueued, JobPhase::kGathering, JobReason::kWaitingForReplicas);
  go(JobPhase::kGathering, JobPhase::kWarming, JobReason::kLoading);
  go(JobPhase::kWarming, JobPhase::kTraining, JobReason::kRunning);
  go(JobPhase::kSealing, JobPhase::kTraining, JobReason::kRunning);
}

void adopt(Turn& turn, JobId id, const RestoredRound& round, const std::vector<Claim>& claims) {
  const RoundNumber known = turn.state().jobs.at(id).committed_round;
  std::vector<Claim> kept, others;
  for (std::size_t i = 0; i < claims.size(); ++i) {
    const bool holds = std::ranges::count(round.holders, i) > 0;
    const ReplicaRecord* same_id = turn.state().replicas.find(claims[i].held.replica);
    const bool free = same_id == nullptr || same_id->store == claims[i].held.store;
    (holds && free ? kept : others).push_back(claims[i]);
  }
  end_round(turn, id);
  drop_replicas(turn, id, kept);
  take_over_records(turn, id, round, claims);
  note_committed_round(turn, id, claims[round.holders.front()].held.record);
  std::vector<ReplicaId> ids;
  for (const Claim& claim : kept) take_over_replica(turn, claim), ids.push_back(claim.held.replica);
  release_claims(turn, others);
  bring_to_training(turn, id);
  if (turn.state().jobs.at(id).phase == JobPhase::kTraining) {
    set_reason(turn, id, JobReason::kRunning);
  }
  turn.event(Severity::kWarning, event_kind::kJobRestored, {.job = id, .round = round.key.round},
             "the database was older than the cluster: it knew round " + std::to_string(known) +
                 "; going on from round " + std::to_string(round.key.round) + ", which " +
                 called(turn.state(), ids) + " hold");
}

void decide(Turn& turn, JobId id) {
  const std::vector<Claim> claims = claims_at_hand(turn.state(), id);
  std::vector<HeldReplica> held;
  for (const Claim& claim : claims) held.push_back(claim.held);
  const JobRecord& job = turn.state().jobs.at(id);
  const std::int32_t stages = std::max(1, stage_count(job));
  const auto round = decide_restored_round(held, stages, !averages_in_groups(job));
  turn.volatile_state().restoring.erase(id);
  if (round) return adopt(turn, id, *round, claims);
  release_claims(turn, claims);
  turn.event(Severity::kWarning, event_kind::kJobRestored, {.job = id},
             "the database is older than the cluster, and what its replicas hold cannot be told "
             "together: no round has a holder of every stage that agree on it");
  if (job.committed_round > 0 || !live_replicas(turn.state(), id).empty()) roll_back(turn, id);
}

}  // namespace

bool claim_newer_state(Turn& turn, AgentId agent, const HeldReplica& held) {
  const JobRecord* job = turn.state().jobs.find(held.job);
  const bool wanted = job != nullptr && !is_terminal(job->phase) && knows_cut(*job);
  if (!wanted || held.key.round <= 0) return false;
  const bool known = turn.state().restoring.contains(held.job);
  if (!known && !is_ahead(*job, held.key)) return false;
  Restoring& restoring = turn.volatile_state().restoring[held.job];
  if (!known) restoring.since = turn.now();
  std::erase_if(restoring.claims, [&](const Claim& claim) {
    return claim.agent == agent && claim.held.replica == held.replica;
  });
  restoring.claims.push_back({agent, held});
  keep_ids_apart(turn, held);
  return true;
}

bool is_claimed(const State& state, AgentId agent, ReplicaId replica) {
  return std::ranges::any_of(state.restoring, [&](const auto& entry) {
    return std::ranges::any_of(entry.second.claims, [&](const Claim& claim) {
      return claim.agent == agent && claim.held.replica == replica;
    });
  });
}

bool is_restoring(Turn& turn, JobId id) {
  const Restoring* restoring = turn.state().restoring.find(id);
  if (restoring == nullptr) return false;
  const Instant due = decision_due(turn, *restoring);
  if (turn.now() >= due) {
    decide(turn, id);
    return false;
  }
  turn.look_again(id, due);
  set_reason(turn, id, JobReason::kRestoring,
             "the database is older than the cluster; waiting for whoever holds the newest round");
  return true;
}

}  // namespace shoal::coordinator
