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
#include "coordinator/core/state/commit_proof.h"
#include "coordinator/core/state/machines.h"
#include "coordinator/core/state/naming.h"
#include "coordinator/core/state/round_facts.h"

namespace shoal::coordinator {
namespace {

bool is_ahead(const JobRecord& job, const RoundKey& key) {
  return std::pair(key.epoch, key.round) > std::pair(job.epoch, job.committed_round);
}

// An epoch above all epochs of histories that this database does not know, or that began with the
// same backup. Those were raised by one, or here, from the time of day. The known ones count as
// well as the clock, because clocks can be set back.
std::int64_t new_epoch(const Transaction& tx, JobId id, const std::vector<Claim>& claims) {
  std::int64_t known = tx.state().jobs.at(id).epoch;
  for (const Claim& claim : claims) known = std::max(known, claim.held.key.epoch);
  for (const auto& [checkpoint, record] : tx.state().checkpoints) {
    if (record.key.job == id) known = std::max(known, record.key.epoch);
  }
  constexpr std::int64_t kTags = std::int64_t{1} << 21;  // below 2^53 until 2106: JSON numbers
  const auto tag = static_cast<std::int64_t>(tx.state().counters.store % kTags);
  return std::max(known + 1, tx.now().ns / 1'000'000'000 * kTags + tag);
}

// A gap in ids that is wider than what any lost history has given out.
std::int64_t leap(const State& state) {
  constexpr std::uint64_t kStep = 1'000, kSteps = 100'000;
  return static_cast<std::int64_t>(kStep * (1 + state.counters.store % kSteps));
}

bool knows_cut(const JobRecord& job) { return !job.stages.empty() || job.spec.swarm.stages == 1; }

bool is_connected(const State& state, AgentId agent) {
  const Presence* presence = state.presence.find(agent);
  return presence != nullptr && presence->connected;
}

// The claim that the agent of this replica would make now.
Claim claim_of(const State& state, const ReplicaRecord& replica) {
  const JobRecord& job = state.jobs.at(replica.job);
  const JobStage& stage = job.stages.at(static_cast<std::size_t>(replica.stage));
  HeldReplica held{.replica = replica.id, .store = replica.store, .job = job.id};
  held.stage = replica.stage;
  held.device = replica.device;
  held.key = {job.id, job.epoch, replica.held_round};
  held.anchor = replica.anchor;
  held.momentum = replica.momentum;
  held.value_count = stage.value_count;
  held.fragments = stage.fragments;
  held.address = replica.address;
  held.record = signed_record(state, job, replica.id);
  held.cut = cut_of(job);
  held.spec = job.spec;
  return {replica.agent, std::move(held)};
}

// The claims of agents that are connected. Replicas that had nothing to claim with their hello are
// included if they have taken the outer step that the database knows since.
std::vector<Claim> claims_at_hand(const State& state, JobId id) {
  std::vector<Claim> claims = state.restoring.at(id).claims;
  const JobRecord& job = state.jobs.at(id);
  for (const ReplicaId holder : in_sync_replicas(state, job)) {
    const ReplicaRecord& replica = state.replicas.at(holder);
    const bool holds = job.committed_round > 0 && replica.held_round == job.committed_round;
    if (holds && !is_claimed(state, replica.agent, holder)) {
      claims.push_back(claim_of(state, replica));
    }
  }
  std::erase_if(claims, [&](const Claim& claim) { return !is_connected(state, claim.agent); });
  return claims;
}

// The digests after the outer step, as far as they were known when the record was signed.
KnownCommit signed_commit(const HeldReplica& held) { return {held.key, held.record.proof.anchors}; }

std::optional<RestoredRound> agreed_round(const State& state, JobId id,
                                          const std::vector<Claim>& claims) {
  const JobRecord& job = state.jobs.at(id);
  std::vector<HeldReplica> held;
  for (const Claim& claim : claims) held.push_back(claim.held);
  std::vector<KnownCommit> known{{{id, job.epoch, job.committed_round}, {}}};
  for (const JobStage& stage : job.stages) known.front().anchors.push_back(stage.anchor);
  for (const Claim& claim : claims) known.push_back(signed_commit(claim.held));
  return decide_restored_round(held, known, std::max(1, stage_count(job)),
                               !averages_in_groups(job));
}

// An agent that held state of the job when the database was made has not returned.
bool misses_holder(const State& state, JobId id) {
  return std::ranges::any_of(state.replicas, [&](const auto& entry) {
    const ReplicaRecord& replica = entry.second;
    return replica.job == id && replica.held_round > 0 && !is_connected(state, replica.agent);
  });
}

// By then every agent that the database knows has returned or counts as gone, and agents that
// joined later have had time to reconnect. If no replica has a state to continue from, the job
// waits for those that may have one, as before any rollback.
Instant decision_due(const Transaction& tx, JobId id) {
  const State& state = tx.state();
  const Instant since = state.restoring.at(id).since;
  const bool all_here =
      std::ranges::all_of(state.presence, [](const auto& entry) { return entry.second.connected; });
  const Options& options = tx.options();
  const bool lost =
      !state.restoring.at(id).unproved.empty() ||
      (!agreed_round(state, id, claims_at_hand(state, id)) && misses_holder(state, id));
  if (all_here && !lost) return since + options.return_grace * 2;
  const Duration wait = lost ? rollback_wait(tx, state.jobs.at(id)) : Duration();
  return since + std::max(options.boot_grace, wait);
}

// Two processes of one agent must not have one incarnation: a copy of its data folder may have been
// started after the backup.
void keep_incarnations_apart(Transaction& tx) {
  std::uint64_t highest = tx.state().counters.incarnation_floor.n;
  for (const auto& [id, agent] : tx.state().agents) {
    highest = std::max<std::uint64_t>(highest, agent.incarnation.n);
  }
  tx.counters().incarnation_floor.n = highest + static_cast<std::uint64_t>(leap(tx.state()));
}

// Ids may have been given out after the backup, so the next ones skip a gap.
void keep_ids_apart(Transaction& tx) {
  const auto by = static_cast<std::uint64_t>(leap(tx.state()));
  CounterRecord& counters = tx.counters();
  for (std::uint64_t* next : {&counters.next_job, &counters.next_agent, &counters.next_replica,
                              &counters.next_checkpoint}) {
    *next += by;
  }
}

// The history of that replica may have given out more ids since its newest commit.
void keep_ids_apart(Transaction& tx, const HeldReplica& held) {
  const auto by = static_cast<std::uint64_t>(leap(tx.state()));
  const CounterRecord& known = tx.state().counters;
  const std::uint64_t replica = std::max(held.replica.n + 1, held.record.next_replica);
  if (replica > known.next_replica) tx.counters().next_replica = replica + by;
  const std::uint64_t checkpoint = held.record.next_checkpoint;
  if (checkpoint > known.next_checkpoint) tx.counters().next_checkpoint = checkpoint + by;
}

// Ends the replicas of the restored records, which describe the past.
void drop_replicas(Transaction& tx, JobId id, const std::vector<Claim>& kept) {
  std::vector<ReplicaId> all = live_replicas(tx.state(), id);
  for (const auto& more : {absent_replicas(tx.state(), id), live_reducers(tx.state(), id)}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  for (const ReplicaId replica : all) {
    const ReplicaRecord& record = tx.state().replicas.at(replica);
    const bool stays = std::ranges::any_of(kept, [&](const Claim& claim) {
      return claim.held.replica == replica && claim.held.store == record.store;
    });
    if (stays) {
      tx.drop_replica(replica);
    } else {
      fail_replica(tx, replica, ReplicaFailure::kStale, "its cluster continued without it");
    }
  }
}

// Fails replicas of other jobs on the devices of claims: the claimed state is worth more.
void clear_devices(Transaction& tx, JobId id, const std::vector<Claim>& kept) {
  std::vector<ReplicaId> others;
  for (const auto& [replica, record] : tx.state().replicas) {
    const bool taken = std::ranges::any_of(kept, [&](const Claim& claim) {
      return claim.agent == record.agent && claim.held.device == record.device;
    });
    if (taken && record.job != id) others.push_back(replica);
  }
  for (const ReplicaId replica : others) {
    fail_replica(tx, replica, ReplicaFailure::kStale,
                 "its device holds what a restored job continues from");
  }
}

void release_claims(Transaction& tx, const std::vector<Claim>& claims,
                    ReleaseReason reason = ReleaseReason::kReplaced) {
  for (const Claim& claim : claims) tx.send(claim.agent, Release{claim.held.replica, reason});
}

// Until the decision, every start is a start with a backup.
void note_backup(Transaction& tx) {
  if (tx.state().counters.backup_at.ns == 0) tx.counters().backup_at = tx.now();
}

// Once all jobs know where they continue, this is a database like any other.
void note_decided(Transaction& tx) {
  const bool over = tx.state().restoring.empty() && tx.state().counters.backup_at.ns != 0;
  if (over) tx.counters().backup_at = {};
}

void keep_cut(JobRecord& job, const std::vector<UnitRange>& cut) {
  for (const UnitRange units : cut) {
    job.stages.push_back({.units = units, .anchor = {}, .momentum = {}});
  }
}

void take_over_records(Transaction& tx, JobId id, const RestoredRound& round,
                       const std::vector<Claim>& claims) {
  const CommitRecord& commit = claims[round.holders.front()].held.record;
  JobRecord& job = tx.job(id);
  job.epoch = new_epoch(tx, id, claims);
  job.committed_round = round.key.round;
  job.committed_at = tx.now();
  job.committed_step = commit.step;
  job.committed_tokens = commit.tokens;
  job.next_sequence = commit.next_sequence;
  job.returned = commit.returned;
  if (commit.outer_lr > 0) job.outer_lr = commit.outer_lr;
  if (commit.data) job.data = commit.data;
  job.failures_in_row = 0;
  job.recut_from = {};
  const std::vector<UnitRange>& cut = claims[round.holders.front()].held.cut;
  if (!cut.empty() && cut != cut_of(job)) {  // of after the backup (swarm.recut)
    record_cut(tx, job);
    job.stages.clear();
    keep_cut(job, cut);
  }
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

// Each holder reports its own outer momentum, by the id that it keeps. One that loaded a checkpoint
// before its length was known has all of it (send_assign() in replicas/replicas.cc).
void note_momentum(RoundRecord& round, const std::vector<Claim>& holders) {
  for (const Claim& claim : holders) {
    const auto stage = static_cast<std::size_t>(claim.held.stage);
    for (MomentumHolder kept : claim.held.record.momentum_holders) {
      if (kept.replica != claim.held.replica || kept.count < 0) continue;
      if (kept.count == 0) kept.count = claim.held.value_count;
      round.reduces.at(stage).momentum_holders.push_back(std::move(kept));
    }
  }
}

// Records what the next rounds need to know about the committed one.
void note_committed_round(Transaction& tx, JobId id, const CommitRecord& commit,
                          const std::vector<Claim>& holders) {
  const JobRecord& job = tx.state().jobs.at(id);
  RoundRecord round;
  round.key = {id, job.epoch, job.committed_round};
  round.state = RoundState::kCommitted;
  round.from_step = round.to_step = commit.step;
  round.opened_at = round.frozen_at = round.committed_at = tx.now();
  round.outer_lr = commit.outer_lr;
  round.carried_steps = commit.carried_steps;
  round.job_tokens = commit.tokens;
  round.reduces.resize(std::max(commit.averages.size(), job.stages.size()));
  for (std::size_t i = 0; i < commit.averages.size(); ++i) {
    round.reduces[i].average = commit.averages[i];
    if (i < commit.anchors.size()) round.reduces[i].base = commit.anchors[i];
    if (i < commit.momenta.size()) round.reduces[i].base_momentum = commit.momenta[i];
  }
  note_momentum(round, holders);
  tx.add(std::move(round));
}

// The replica keeps its id, which no other one has got meanwhile.
void take_over_replica(Transaction& tx, const Claim& claim) {
  const JobRecord& job = tx.state().jobs.at(claim.held.job);
  ReplicaRecord replica;
  replica.id = claim.held.replica;
  replica.job = job.id;
  replica.agent = claim.agent;
  replica.incarnation = tx.state().agents.at(claim.agent).incarnation;
  replica.device = claim.held.device;
  replica.stage = claim.held.stage;
  replica.state = ReplicaState::kServing;
  replica.source.key = {job.id, job.epoch, job.committed_round};
  replica.address = claim.held.address;
  replica.epoch = job.epoch;
  replica.held_round = job.committed_round;
  replica.anchor = claim.held.anchor;
  replica.momentum = claim.held.momentum;
  replica.store = claim.held.store;
  replica.created_at = tx.now();
  const ReplicaId id = tx.add(std::move(replica)).id;
  tell_to_go_on(tx, id);
  refresh_agent(tx, claim.agent);
}

// Takes the job through the phases between that of the backup and training.
void bring_to_training(Transaction& tx, JobId id) {
  const auto go = [&](JobPhase from, JobPhase to, JobReason reason) {
    if (tx.state().jobs.at(id).phase == from) transition(tx, id, to, reason);
  };
  if (tx.state().jobs.at(id).phase == JobPhase::kPaused) tx.job(id).desired = JobDesired::kRun;
  go(JobPhase::kPaused, JobPhase::kQueued, JobReason::kWaitingForReplicas);
  go(JobPhase::kQueued, JobPhase::kGathering, JobReason::kWaitingForReplicas);
  go(JobPhase::kGathering, JobPhase::kWarming, JobReason::kLoading);
  go(JobPhase::kWarming, JobPhase::kTraining, JobReason::kRunning);
  go(JobPhase::kFinalizing, JobPhase::kTraining, JobReason::kRunning);
  if (tx.state().jobs.at(id).phase == JobPhase::kTraining) {
    set_reason(tx, id, JobReason::kRunning);
  }
}

void tell(Transaction& tx, JobId id, RoundNumber round, const std::string& outcome) {
  tx.event(Severity::kWarning, event_kind::kJobRestored, {.job = id, .round = round},
           "the database is older than the cluster: " + outcome);
}

void adopt(Transaction& tx, JobId id, const RestoredRound& round,
           const std::vector<Claim>& claims) {
  const RoundNumber known = tx.state().jobs.at(id).committed_round;
  std::vector<Claim> kept, others;
  for (std::size_t i = 0; i < claims.size(); ++i) {
    const bool holds = std::ranges::count(round.holders, i) > 0;
    const ReplicaRecord* same_id = tx.state().replicas.find(claims[i].held.replica);
    const bool free = same_id == nullptr || same_id->store == claims[i].held.store;
    (holds && free ? kept : others).push_back(claims[i]);
  }
  end_round(tx, id);
  drop_replicas(tx, id, kept);
  clear_devices(tx, id, kept);
  take_over_records(tx, id, round, claims);
  note_committed_round(tx, id, claims[round.holders.front()].held.record, kept);
  std::vector<ReplicaId> ids;
  for (const Claim& claim : kept) take_over_replica(tx, claim), ids.push_back(claim.held.replica);
  release_claims(tx, others);
  tx.volatile_state().timers[id].view.clear();  // all get a new one
  bring_to_training(tx, id);
  tell(tx, id, round.key.round,
       "it knew round " + std::to_string(known) + "; continuing from round " +
           std::to_string(round.key.round) + ", which " + display_name(tx.state(), ids) + " hold");
}

// No replica holds anything newer than the newest checkpoint.
void go_on_without(Transaction& tx, JobId id, const std::vector<Claim>& claims) {
  release_claims(tx, claims);
  const JobRecord& job = tx.state().jobs.at(id);
  const RoundNumber known = job.committed_round;
  const bool nothing = known == 0 && claims.empty() && job.phase == JobPhase::kQueued;
  const CheckpointRecord* cut = newest_stored(tx.state(), id);
  const bool lost = known > (cut == nullptr ? 0 : cut->key.round);
  lost ? roll_back(tx, id) : go_forward(tx, id);
  tx.job(id).epoch = new_epoch(tx, id, claims);
  const std::string from = cut == nullptr
                               ? "the initial parameters"
                               : to_string(cut->id) + " of round " + std::to_string(cut->key.round);
  const std::string why = claims.empty() ? "no replica holds anything newer"
                                         : "no round has a holder of every stage that agree on it";
  if (!nothing) {
    tell(tx, id, job.committed_round,
         "it knew round " + std::to_string(known) + ", " + why + "; continuing from " + from);
  }
  if (is_to_let_go(job) && job.phase != JobPhase::kPaused) give_devices_up(tx, id);
}

bool is_newer(const CheckpointRecord* cut, const RoundKey& key) {
  return cut != nullptr && key < cut->key;
}

void decide(Transaction& tx, JobId id) {
  const std::vector<Claim> claims = claims_at_hand(tx.state(), id);
  const auto round = agreed_round(tx.state(), id, claims);
  release_claims(tx, tx.state().restoring.at(id).unproved);
  tx.volatile_state().restoring.erase(id);
  if (round && !is_newer(newest_stored(tx.state(), id), round->key)) {
    adopt(tx, id, *round, claims);
  } else {
    go_on_without(tx, id, claims);
  }
  note_decided(tx);
}

// The job was submitted after the backup, and a replica of it is alive: it continues, with the
// owner and the priority that were signed.
void take_over_job(Transaction& tx, AgentId agent, const HeldReplica& held) {
  const CommitProof& proof = held.record.proof;
  JobRecord record;
  record.id = held.job;
  record.spec = for_agents(held.spec);
  record.spec.name = proof.job_name;
  if (live_job_by_name(tx.state(), proof.job_name) != nullptr) {
    record.spec.name += "-" + std::to_string(held.job.n);  // submitted again meanwhile
  }
  record.owner = proof.owner;
  record.priority = proof.priority;
  record.outer_lr = held.spec.sync.outer.lr;
  record.created_at = tx.now();
  const JobId id = tx.add(std::move(record)).id;
  tx.volatile_state().timers.put(id, {});
  tx.volatile_state().restoring[id].since = tx.now();
  note_backup(tx);
  std::uint64_t& next = tx.counters().next_job;
  next = std::max(next, id.n + 1);
  tx.event(Severity::kWarning, event_kind::kJobRestored, {.job = id, .agent = agent},
           tx.state().agents.at(agent).name + " has " + to_string(held.replica) + " of " +
               to_string(held.job) + ", named " + proof.job_name +
               ", which was submitted after this backup was made; it continues");
}

void refuse_claim(Transaction& tx, AgentId agent, const HeldReplica& held, const std::string& why) {
  ++tx.volatile_state().claims_refused;
  tx.event(Severity::kWarning, event_kind::kClaimRefused,
           {.job = tx.state().jobs.contains(held.job) ? held.job : JobId(),
            .agent = agent,
            .round = held.key.round},
           tx.state().agents.at(agent).name + " returned with " + to_string(held.replica) +
               ", said to hold round " + std::to_string(held.key.round) + " of " +
               to_string(held.job) + ", which is refused: " + why);
}

// The operator may still bring the key.
bool may_be_proved(const State& state, const HeldReplica& held, ProofVerdict verdict) {
  const std::string& key = held.record.proof.key_id;
  return verdict == ProofVerdict::kUnknownKey && state.restoring.contains(held.job) &&
         number_of_key(key) > number_of_key(state.record_keys.back().id);
}

// Whether the claim would tell the database anything that it does not know.
bool is_news(const State& state, const HeldReplica& held) {
  const JobRecord* job = state.jobs.find(held.job);
  if (job == nullptr) return held.key.round >= 0;
  if (is_terminal(job->phase) || held.key.round <= 0) return false;
  return state.restoring.contains(held.job) || is_ahead(*job, held.key);
}

ClaimVerdict weigh(Transaction& tx, AgentId agent, const HeldReplica& held) {
  const State& state = tx.state();
  const ProofVerdict verdict = check_proof(state.record_keys, agent, held);
  if (may_be_proved(state, held, verdict)) {
    refuse_claim(tx, agent, held, explain(verdict, state.record_keys, held.record.proof));
    tx.volatile_state().restoring[held.job].unproved.push_back({agent, held});
    return ClaimVerdict::kAccepted;
  }
  // A restored database knows the same of it: nothing of the claim is needed.
  const JobRecord* job = state.jobs.find(held.job);
  const bool needed = job == nullptr || is_ahead(*job, held.key);
  if (verdict == ProofVerdict::kUnsigned && !needed) return ClaimVerdict::kNothingNew;
  if (verdict == ProofVerdict::kGood) return ClaimVerdict::kAccepted;
  refuse_claim(tx, agent, held, explain(verdict, state.record_keys, held.record.proof));
  return ClaimVerdict::kRefused;
}

bool is_unproved(const State& state, AgentId agent, const HeldReplica& held) {
  const Restoring* restoring = state.restoring.find(held.job);
  return restoring != nullptr && std::ranges::any_of(restoring->unproved, [&](const Claim& claim) {
           return claim.agent == agent && claim.held.replica == held.replica;
         });
}

template <typename Match>
void erase_claims(Transaction& tx, const Match& match) {
  for (auto& [job, restoring] : tx.volatile_state().restoring) {
    std::erase_if(restoring.claims, match);
    std::erase_if(restoring.unproved, match);
  }
}

void take_claim(Transaction& tx, AgentId agent, const HeldReplica& held) {
  const bool known = tx.state().restoring.contains(held.job);
  Restoring& restoring = tx.volatile_state().restoring[held.job];
  if (!known) restoring.since = tx.now();
  note_backup(tx);
  restoring.claims.push_back({agent, held});
  keep_ids_apart(tx, held);
}

}  // namespace

ClaimVerdict claim_newer_state(Transaction& tx, AgentId agent, const HeldReplica& held) {
  ReplicaRecord claimed;
  claimed.agent = agent, claimed.device = held.device;
  if (is_reducer(tx.state(), claimed)) return ClaimVerdict::kNothingNew;  // it has no state
  if (!is_news(tx.state(), held)) return ClaimVerdict::kNothingNew;
  const ClaimVerdict verdict = weigh(tx, agent, held);
  if (verdict != ClaimVerdict::kAccepted || is_unproved(tx.state(), agent, held)) return verdict;
  if (!tx.state().jobs.contains(held.job)) take_over_job(tx, agent, held);
  if (held.key.round <= 0) return ClaimVerdict::kNothingNew;  // the job begins from the start
  const JobRecord* job = tx.state().jobs.find(held.job);
  if (job->stages.empty()) keep_cut(tx.job(held.job), held.cut);
  take_over_found(tx, held.job);
  if (!knows_cut(*job)) return ClaimVerdict::kNothingNew;
  take_claim(tx, agent, held);
  return ClaimVerdict::kAccepted;
}

void begin_claims(Transaction& tx, AgentId agent) {
  erase_claims(tx, [&](const Claim& claim) { return claim.agent == agent; });
}

void withdraw_claim(Transaction& tx, AgentId agent, ReplicaId replica) {
  erase_claims(tx, [&](const Claim& claim) {
    return claim.agent == agent && claim.held.replica == replica;
  });
}

bool is_claimed(const State& state, AgentId agent, ReplicaId replica) {
  const auto is_it = [&](const Claim& claim) {
    return claim.agent == agent && claim.held.replica == replica;
  };
  return std::ranges::any_of(state.restoring, [&](const auto& entry) {
    return std::ranges::any_of(entry.second.claims, is_it) ||
           std::ranges::any_of(entry.second.unproved, is_it);
  });
}

bool is_restoring(Transaction& tx, JobId id) {
  if (!tx.state().restoring.contains(id)) return false;
  const Instant due = decision_due(tx, id);
  if (tx.now() >= due) {
    decide(tx, id);
    return false;
  }
  tx.schedule_wakeup(id, due);
  if (tx.state().jobs.at(id).phase != JobPhase::kPaused) {
    set_reason(tx, id, JobReason::kRestoring,
               "the database is older than the cluster; waiting for the agents that hold the "
               "newest round");
  }
  return true;
}

void begin_restoring(Transaction& tx, const std::vector<CheckpointRecord>& found) {
  const State& state = tx.state();
  const bool older = take_over_found(tx, found);
  if (older) note_backup(tx);
  if (state.counters.backup_at.ns == 0) return;
  keep_ids_apart(tx);
  keep_incarnations_apart(tx);
  for (const auto& [id, timers] : state.timers) {
    tx.volatile_state().restoring[id].since = tx.now();
  }
  tx.event(
      Severity::kWarning, event_kind::kCoordinatorStarted, {},
      "it started with a backup: jobs continue from the newest state that is found, and new ids "
      "begin with " +
          to_string(JobId(state.counters.next_job)) + ", " +
          to_string(ReplicaId(state.counters.next_replica)) + " and " +
          to_string(CheckpointId(state.counters.next_checkpoint)));
  note_decided(tx);
}

void forget_claims(Transaction& tx, JobId id, ReleaseReason reason) {
  if (!tx.state().restoring.contains(id)) return;
  release_claims(tx, claims_at_hand(tx.state(), id), reason);
  release_claims(tx, tx.state().restoring.at(id).unproved, reason);
  tx.volatile_state().restoring.erase(id);
  note_decided(tx);
}

}  // namespace shoal::coordinator
