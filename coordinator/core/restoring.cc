#include "coordinator/core/restoring.h"

#include <algorithm>

#include "coordinator/core/absence.h"
#include "coordinator/core/checkpoints/checkpoints.h"
#include "coordinator/core/checkpoints/found.h"
#include "coordinator/core/decisions/restored_round.h"
#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/releases.h"
#include "coordinator/core/replicas/agents.h"
#include "coordinator/core/replicas/replicas.h"
#include "coordinator/core/rounds/rounds.h"
#include "coordinator/core/state/machines.h"
#include "coordinator/core/state/naming.h"
#include "coordinator/core/state/round_facts.h"
#include "job/job_options.h"

namespace shoal::coordinator {
namespace {

bool is_ahead(const JobRecord& job, const RoundKey& key) {
  return std::pair(key.lineage, key.round) > std::pair(job.lineage, job.committed_round);
}

// Later than every epoch of a history that this database does not know of, or that began with the
// same backup: each was raised by one, or here, at its time. What tells of one is no proof of the
// time: clocks are set.
std::int64_t new_epoch(const Turn& turn, JobId id, const std::vector<Claim>& claims) {
  std::int64_t known = turn.state().jobs.at(id).lineage;
  for (const Claim& claim : claims) known = std::max(known, claim.held.key.lineage);
  for (const auto& [checkpoint, record] : turn.state().checkpoints) {
    if (record.key.job == id) known = std::max(known, record.key.lineage);
  }
  return std::max(known + 1, turn.now().ns / 1'000'000);
}

// Nobody has counted so far in such a history.
std::int64_t leap(const State& state) {
  constexpr std::uint64_t kStep = 1'000, kSteps = 100'000;
  return static_cast<std::int64_t>(kStep * (1 + state.counters.store % kSteps));
}

bool knows_cut(const JobRecord& job) { return !job.stages.empty() || job.spec.swarm.stages == 1; }

bool is_connected(const State& state, AgentId agent) {
  const Presence* presence = state.presence.find(agent);
  return presence != nullptr && presence->connected;
}

// As its agent would say it by now.
Claim claim_of(const State& state, const ReplicaRecord& replica) {
  const JobRecord& job = state.jobs.at(replica.job);
  const JobStage& stage = job.stages.at(static_cast<std::size_t>(replica.stage));
  HeldReplica held{.replica = replica.id, .store = replica.store, .job = job.id};
  held.stage = replica.stage;
  held.device = replica.device;
  held.key = {job.id, job.lineage, replica.held_round};
  held.anchor = replica.anchor;
  held.momentum = replica.momentum;
  held.value_count = stage.value_count;
  held.fragments = stage.fragments;
  held.address = replica.address;
  held.record = commit_record(state, job);
  held.cut = cut_of(job);
  held.spec = job.spec;
  return {replica.agent, std::move(held)};
}

// Those, too, that had nothing to claim with their hello, and took the outer step which the
// database knows since then.
std::vector<Claim> claims_at_hand(const State& state, JobId id) {
  std::vector<Claim> claims = state.restoring.at(id).claims;
  const JobRecord& job = state.jobs.at(id);
  for (const ReplicaId holder : holders(state, job)) {
    const ReplicaRecord& replica = state.replicas.at(holder);
    const bool holds = job.committed_round > 0 && replica.held_round == job.committed_round;
    if (holds && !is_claimed(state, replica.agent, holder)) {
      claims.push_back(claim_of(state, replica));
    }
  }
  std::erase_if(claims, [&](const Claim& claim) { return !is_connected(state, claim.agent); });
  return claims;
}

std::optional<RestoredRound> agreed_round(const State& state, JobId id,
                                          const std::vector<Claim>& claims) {
  const JobRecord& job = state.jobs.at(id);
  std::vector<HeldReplica> held;
  for (const Claim& claim : claims) held.push_back(claim.held);
  KnownCommit known{{id, job.lineage, job.committed_round}, {}};
  for (const JobStage& stage : job.stages) known.anchors.push_back(stage.anchor);
  return decide_restored_round(held, known, std::max(1, stage_count(job)),
                               !averages_in_groups(job));
}

// Somebody who held its state when the database was made has not returned.
bool misses_holder(const State& state, JobId id) {
  return std::ranges::any_of(state.replicas, [&](const auto& entry) {
    const ReplicaRecord& replica = entry.second;
    return replica.job == id && replica.held_round > 0 && !is_connected(state, replica.agent);
  });
}

// Whoever was there when the database was made has returned or is taken for gone, and those who
// came later have had time to find their way. While nobody has a state to go on from, those who may
// are waited for as before any roll-back.
Instant decision_due(const Turn& turn, JobId id) {
  const State& state = turn.state();
  const Instant since = state.restoring.at(id).since;
  const bool all_here =
      std::ranges::all_of(state.presence, [](const auto& entry) { return entry.second.connected; });
  const Options& options = turn.options();
  const bool lost = !agreed_round(state, id, claims_at_hand(state, id)) && misses_holder(state, id);
  if (all_here && !lost) return since + options.return_grace * 2;
  const Duration wait = lost ? rollback_wait(turn, state.jobs.at(id)) : Duration();
  return since + std::max(options.boot_grace, wait);
}

// Two processes of one agent must not have one incarnation: a copy of its data folder may have been
// started after the backup.
void keep_incarnations_apart(Turn& turn) {
  std::uint64_t highest = turn.state().counters.incarnation_floor.n;
  for (const auto& [id, agent] : turn.state().agents) {
    highest = std::max<std::uint64_t>(highest, agent.incarnation.n);
  }
  turn.counters().incarnation_floor.n = highest + static_cast<std::uint64_t>(leap(turn.state()));
}

// Those that were given out after the backup.
void keep_ids_apart(Turn& turn) {
  const auto by = static_cast<std::uint64_t>(leap(turn.state()));
  CounterRecord& counters = turn.counters();
  for (std::uint64_t* next : {&counters.next_job, &counters.next_agent, &counters.next_replica,
                              &counters.next_checkpoint}) {
    *next += by;
  }
}

// The history of that replica may have given out more of them since its newest commit.
void keep_ids_apart(Turn& turn, const HeldReplica& held) {
  const auto by = static_cast<std::uint64_t>(leap(turn.state()));
  const CounterRecord& known = turn.state().counters;
  const std::uint64_t replica = std::max(held.replica.n + 1, held.record.next_replica);
  if (replica > known.next_replica) turn.counters().next_replica = replica + by;
  const std::uint64_t checkpoint = held.record.next_checkpoint;
  if (checkpoint > known.next_checkpoint) turn.counters().next_checkpoint = checkpoint + by;
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

// What was placed there before the claim is not worth what the claim holds.
void clear_devices(Turn& turn, JobId id, const std::vector<Claim>& kept) {
  std::vector<ReplicaId> others;
  for (const auto& [replica, record] : turn.state().replicas) {
    const bool taken = std::ranges::any_of(kept, [&](const Claim& claim) {
      return claim.agent == record.agent && claim.held.device == record.device;
    });
    if (taken && record.job != id) others.push_back(replica);
  }
  for (const ReplicaId replica : others) {
    fail_replica(turn, replica, ReplicaFailure::kStale,
                 "its device holds what a restored job goes on from");
  }
}

void release_claims(Turn& turn, const std::vector<Claim>& claims,
                    ReleaseReason reason = ReleaseReason::kReplaced) {
  for (const Claim& claim : claims) turn.send(claim.agent, Release{claim.held.replica, reason});
}

// A start before the decision is one with a backup as well.
void note_backup(Turn& turn) {
  if (turn.state().counters.backup_at.ns == 0) turn.counters().backup_at = turn.now();
}

// All jobs know where they go on: from now on this is a database like any other.
void note_decided(Turn& turn) {
  const bool over = turn.state().restoring.empty() && turn.state().counters.backup_at.ns != 0;
  if (over) turn.counters().backup_at = {};
}

void keep_cut(JobRecord& job, const std::vector<UnitRange>& cut) {
  for (const UnitRange units : cut) {
    job.stages.push_back({.units = units, .anchor = {}, .momentum = {}});
  }
}

void take_over_records(Turn& turn, JobId id, const RestoredRound& round,
                       const std::vector<Claim>& claims) {
  const CommitRecord& commit = claims[round.holders.front()].held.record;
  JobRecord& job = turn.job(id);
  job.lineage = new_epoch(turn, id, claims);
  job.committed_round = round.key.round;
  job.committed_at = turn.now();
  job.committed_step = commit.step;
  job.committed_tokens = commit.tokens;
  job.next_sequence = commit.next_sequence;
  job.returned = commit.returned;
  if (commit.outer_lr > 0) job.outer_lr = commit.outer_lr;
  if (commit.data) job.data = commit.data;
  job.failures_in_row = 0;
  if (job.stages.empty()) keep_cut(job, whole_model(job.spec));
  for (const std::size_t holder : round.holders) {
    const HeldReplica& held = claims[holder].held;
    JobStage& stage = stage_of(job, held.stage);
    stage.anchor = held.anchor;
    stage.momentum = held.momentum;
    stage.value_count = held.value_count;
    stage.fragments = held.fragments;
  }
}

// Of its own outer momentum each of them speaks, by the id that it keeps. One that loaded a
// checkpoint before anybody knew its length has all of it (send_assign() in replicas/replicas.cc).
void note_momentum(RoundRecord& round, const std::vector<Claim>& holders) {
  for (const Claim& claim : holders) {
    const auto stage = static_cast<std::size_t>(claim.held.stage);
    for (MomentumHolder kept : claim.held.record.momentum_holders) {
      if (kept.replica != claim.held.replica || kept.count < 0) continue;
      if (kept.count == 0) kept.count = claim.held.value_count;
      round.stages.at(stage).momentum_holders.push_back(std::move(kept));
    }
  }
}

// What the rounds that follow look at of the one before.
void note_committed_round(Turn& turn, JobId id, const CommitRecord& commit,
                          const std::vector<Claim>& holders) {
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
  note_momentum(round, holders);
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
  tell_to_go_on(turn, id);
  refresh_agent(turn, claim.agent);
}

// The phases that lie between what the backup knew and what is.
void bring_to_training(Turn& turn, JobId id) {
  const auto go = [&](JobPhase from, JobPhase to, JobReason reason) {
    if (turn.state().jobs.at(id).phase == from) transition(turn, id, to, reason);
  };
  if (turn.state().jobs.at(id).phase == JobPhase::kPaused) turn.job(id).desired = JobDesired::kRun;
  go(JobPhase::kPaused, JobPhase::kQueued, JobReason::kWaitingForReplicas);
  go(JobPhase::kQueued, JobPhase::kGathering, JobReason::kWaitingForReplicas);
  go(JobPhase::kGathering, JobPhase::kWarming, JobReason::kLoading);
  go(JobPhase::kWarming, JobPhase::kTraining, JobReason::kRunning);
  go(JobPhase::kSealing, JobPhase::kTraining, JobReason::kRunning);
  if (turn.state().jobs.at(id).phase == JobPhase::kTraining) {
    set_reason(turn, id, JobReason::kRunning);
  }
}

void tell(Turn& turn, JobId id, RoundNumber round, const std::string& outcome) {
  turn.event(Severity::kWarning, event_kind::kJobRestored, {.job = id, .round = round},
             "the database is older than the cluster: " + outcome);
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
  clear_devices(turn, id, kept);
  take_over_records(turn, id, round, claims);
  note_committed_round(turn, id, claims[round.holders.front()].held.record, kept);
  std::vector<ReplicaId> ids;
  for (const Claim& claim : kept) take_over_replica(turn, claim), ids.push_back(claim.held.replica);
  release_claims(turn, others);
  turn.volatile_state().timers[id].view.clear();  // all are told anew
  bring_to_training(turn, id);
  tell(turn, id, round.key.round,
       "it knew round " + std::to_string(known) + "; going on from round " +
           std::to_string(round.key.round) + ", which " + called(turn.state(), ids) + " hold");
}

// Nobody holds anything newer than the newest checkpoint.
void go_on_without(Turn& turn, JobId id, const std::vector<Claim>& claims) {
  release_claims(turn, claims);
  const JobRecord& job = turn.state().jobs.at(id);
  const RoundNumber known = job.committed_round;
  const bool nothing = known == 0 && claims.empty() && job.phase == JobPhase::kQueued;
  const CheckpointRecord* cut = newest_stored(turn.state(), id);
  const bool lost = known > (cut == nullptr ? 0 : cut->key.round);
  lost ? roll_back(turn, id) : go_forward(turn, id);
  turn.job(id).lineage = new_epoch(turn, id, claims);
  const std::string from = cut == nullptr
                               ? "the initial parameters"
                               : to_string(cut->id) + " of round " + std::to_string(cut->key.round);
  const std::string why = claims.empty() ? "nobody holds what came after it"
                                         : "no round has a holder of every stage that agree on it";
  if (!nothing) {
    tell(turn, id, job.committed_round,
         "it knew round " + std::to_string(known) + ", " + why + "; going on from " + from);
  }
  if (job.desired == JobDesired::kPause && job.phase != JobPhase::kPaused) pause_job(turn, id);
}

bool is_newer(const CheckpointRecord* cut, const RoundKey& key) {
  return cut != nullptr && key < cut->key;
}

void decide(Turn& turn, JobId id) {
  const std::vector<Claim> claims = claims_at_hand(turn.state(), id);
  const auto round = agreed_round(turn.state(), id, claims);
  turn.volatile_state().restoring.erase(id);
  if (round && !is_newer(newest_stored(turn.state(), id), round->key)) {
    adopt(turn, id, *round, claims);
  } else {
    go_on_without(turn, id, claims);
  }
  note_decided(turn);
}

// Not of another one that was given the same id, where two histories were not told apart.
bool is_of(const JobRecord& job, const HeldReplica& held) {
  return held.spec.name.empty() ||
         (held.spec.train.seed == job.spec.train.seed &&
          held.spec.data.train == job.spec.data.train && held.spec.model == job.spec.model);
}

// It was submitted after the backup, and somebody works for it: it goes on.
void take_over_job(Turn& turn, AgentId agent, const HeldReplica& held) {
  const std::string who = turn.state().agents.at(agent).name;
  const std::string what = who + " has " + to_string(held.replica) + " of " + to_string(held.job);
  if (held.spec.name.empty() || !validate(options_of(held.spec)).empty()) {
    return turn.event(Severity::kWarning, event_kind::kJobRestored, {.agent = agent},
                      what + ", which the database does not know; it is let go");
  }
  JobRecord record;
  record.id = held.job;
  record.spec = held.spec;
  if (live_job_by_name(turn.state(), held.spec.name) != nullptr) {
    record.spec.name += "-" + std::to_string(held.job.n);  // submitted again meanwhile
  }
  record.outer_lr = held.spec.sync.outer().lr;
  record.created_at = turn.now();
  const JobId id = turn.add(std::move(record)).id;
  turn.volatile_state().timers.put(id, {});
  turn.volatile_state().restoring[id].since = turn.now();
  note_backup(turn);
  std::uint64_t& next = turn.counters().next_job;
  next = std::max(next, id.n + 1);
  turn.event(Severity::kWarning, event_kind::kJobRestored, {.job = id, .agent = agent},
             what + ", named " + held.spec.name +
                 ", which was submitted after the backup that the database is; it goes on");
}

}  // namespace

bool claim_newer_state(Turn& turn, AgentId agent, const HeldReplica& held) {
  ReplicaRecord claimed;
  claimed.agent = agent, claimed.device = held.device;
  if (is_reducer(turn.state(), claimed)) return false;  // it has no state
  if (!turn.state().jobs.contains(held.job)) take_over_job(turn, agent, held);
  const JobRecord* job = turn.state().jobs.find(held.job);
  if (job == nullptr || is_terminal(job->phase) || held.key.round <= 0) return false;
  const bool known = turn.state().restoring.contains(held.job);
  if (!is_of(*job, held) || (!known && !is_ahead(*job, held.key))) return false;
  if (job->stages.empty()) keep_cut(turn.job(held.job), held.cut);
  take_over_found(turn, held.job);
  if (!knows_cut(*job)) return false;
  Restoring& restoring = turn.volatile_state().restoring[held.job];
  if (!known) restoring.since = turn.now();
  note_backup(turn);
  std::erase_if(restoring.claims, [&](const Claim& claim) {
    return claim.agent == agent && claim.held.replica == held.replica;
  });
  restoring.claims.push_back({agent, held});
  keep_ids_apart(turn, held);
  return true;
}

void begin_claims(Turn& turn, AgentId agent) {
  for (auto& [job, restoring] : turn.volatile_state().restoring) {
    std::erase_if(restoring.claims, [&](const Claim& claim) { return claim.agent == agent; });
  }
}

void withdraw_claim(Turn& turn, AgentId agent, ReplicaId replica) {
  for (auto& [job, restoring] : turn.volatile_state().restoring) {
    std::erase_if(restoring.claims, [&](const Claim& claim) {
      return claim.agent == agent && claim.held.replica == replica;
    });
  }
}

bool is_claimed(const State& state, AgentId agent, ReplicaId replica) {
  return std::ranges::any_of(state.restoring, [&](const auto& entry) {
    return std::ranges::any_of(entry.second.claims, [&](const Claim& claim) {
      return claim.agent == agent && claim.held.replica == replica;
    });
  });
}

bool is_restoring(Turn& turn, JobId id) {
  if (!turn.state().restoring.contains(id)) return false;
  const Instant due = decision_due(turn, id);
  if (turn.now() >= due) {
    decide(turn, id);
    return false;
  }
  turn.look_again(id, due);
  if (turn.state().jobs.at(id).phase != JobPhase::kPaused) {
    set_reason(
        turn, id, JobReason::kRestoring,
        "the database is older than the cluster; waiting for whoever holds the newest round");
  }
  return true;
}

void begin_restoring(Turn& turn, const std::vector<CheckpointRecord>& found) {
  const State& state = turn.state();
  const bool older = take_over_found(turn, found);
  if (older) note_backup(turn);
  if (state.counters.backup_at.ns == 0) return;
  keep_ids_apart(turn);
  keep_incarnations_apart(turn);
  for (const auto& [id, timers] : state.timers) {
    turn.volatile_state().restoring[id].since = turn.now();
  }
  turn.event(
      Severity::kWarning, event_kind::kCoordinatorStarted, {},
      "it started with a backup: jobs go on from the newest state that is found, and new ids "
      "begin with " +
          to_string(JobId(state.counters.next_job)) + ", " +
          to_string(ReplicaId(state.counters.next_replica)) + " and " +
          to_string(CheckpointId(state.counters.next_checkpoint)));
  note_decided(turn);
}

void forget_claims(Turn& turn, JobId id, ReleaseReason reason) {
  if (!turn.state().restoring.contains(id)) return;
  release_claims(turn, claims_at_hand(turn.state(), id), reason);
  turn.volatile_state().restoring.erase(id);
  note_decided(turn);
}

}  // namespace shoal::coordinator
