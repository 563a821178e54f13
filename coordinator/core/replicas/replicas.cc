#include "coordinator/core/replicas/replicas.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "coordinator/core/checkpoints/checkpoints.h"
#include "coordinator/core/decisions/data_ledger.h"
#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/replicas/agents.h"
#include "coordinator/core/replicas/copies.h"
#include "coordinator/core/replicas/device_failures.h"
#include "coordinator/core/replicas/evaluation.h"
#include "coordinator/core/replicas/joining.h"
#include "coordinator/core/replicas/program_models.h"
#include "coordinator/core/replicas/recutting.h"
#include "coordinator/core/state/commit_proof.h"
#include "coordinator/core/state/machines.h"
#include "coordinator/core/state/movement.h"
#include "coordinator/core/state/naming.h"
#include "coordinator/core/state/round_facts.h"
#include "job/data_rules.h"

namespace shoal::coordinator {
namespace {

// Chooses one of the stage's in-sync replicas that feed the fewest joiners, another one each time:
// a source that this joiner cannot reach must not be offered forever. The source must have taken
// the outer step already. Absent replicas, and those whose agent is out of reach, are not chosen,
// because their trainer may hang or be gone.
const ReplicaRecord* choose_peer(const State& state, const JobRecord& job, StageIndex stage) {
  std::vector<const ReplicaRecord*> best;
  std::int64_t best_load = 0;
  for (const auto& [id, replica] : state.replicas) {
    const bool holds = replica.job == job.id && replica.stage == stage &&
                       replica.epoch == job.epoch && replica.held_round == job.committed_round &&
                       !replica.address.empty();
    const Presence* presence = state.presence.find(replica.agent);
    if (!holds || !is_present(state, id)) continue;
    if (presence == nullptr || !presence->connected) continue;
    std::int64_t load = 0;
    for (const auto& [other_id, other] : state.replicas) {
      load += other.state == ReplicaState::kLoading && other.source.replica == id;
    }
    if (!best.empty() && load > best_load) continue;
    if (load < best_load) best.clear();
    best_load = load;
    best.push_back(&replica);
  }
  return best.empty() ? nullptr : best[state.counters.next_replica % best.size()];
}

bool knows_renewal(const State& state, const JobRecord& job, ReplicaId id) {
  const ReplicaRecord* replica = state.replicas.find(id);
  if (replica == nullptr || !is_present(state, id)) return false;
  return replica->epoch == job.epoch && replica->held_round == job.committed_round &&
         speaks(state, replica->agent, kFirstWithKeepRecord);
}

JobSpec spec_for(const State& state, AgentId agent, const JobSpec& spec) {
  JobSpec sent = for_agents(spec);
  if (!speaks(state, agent, kFirstWithoutNames)) sent.name = spec.name;
  return sent;
}

bool counts_against_job(ReplicaFailure failure) {
  switch (failure) {
    case ReplicaFailure::kTrainerExited:
    case ReplicaFailure::kDeviceLost:
    case ReplicaFailure::kNonFiniteLoss:
    case ReplicaFailure::kModelDoesNotFit:
    case ReplicaFailure::kDigestMismatch:
    case ReplicaFailure::kUnresponsive:
    case ReplicaFailure::kInternal:
      return true;
    case ReplicaFailure::kDataMissing:  // this and the next two: not tried again on that agent
    case ReplicaFailure::kDataInvalid:
    case ReplicaFailure::kOutOfMemory:
    case ReplicaFailure::kSourceLost:
    case ReplicaFailure::kStale:
    case ReplicaFailure::kAgentLost:
    case ReplicaFailure::kAgentRestarted:
    case ReplicaFailure::kPeerUnreachable:
    case ReplicaFailure::kTooSlow:  // not tried again there for a while
      return false;
  }
  return true;
}

bool will_fail_again(ReplicaFailure failure) {
  return failure == ReplicaFailure::kDataMissing || failure == ReplicaFailure::kDataInvalid ||
         failure == ReplicaFailure::kModelDoesNotFit;
}

// Null when the loaded state is the one the job wants now; else why not.
const char* unwanted(const JobRecord& job, const Loaded& loaded) {
  if (loaded.key.job != job.id || loaded.key.epoch != job.epoch)
    return "it belongs to a past epoch";
  if (loaded.key.round != job.committed_round) return "a newer round was committed meanwhile";
  const auto fragments = static_cast<std::int64_t>(loaded.fragments.size());
  if (job.spec.sync.fragments > 1 && fragments != job.spec.sync.fragments)
    return "its fragments are not those of the job";
  return nullptr;
}

// In groups no two replicas hold the same state, so a joiner has the state of its source.
bool has_own_anchor(const JobRecord& job, const ReplicaRecord& replica) {
  return averages_in_groups(job) && replica.source.kind == SourceKind::kPeer;
}

bool is_what_it_should_be(const JobRecord& job, const ReplicaRecord& replica,
                          const Loaded& loaded) {
  const JobStage& shared = stage_of(job, replica.stage);
  // Until the stage has agreed on its state, there is only what the source reported, for one round.
  const bool own = has_own_anchor(job, replica) || !shared.anchor;
  if (own && loaded.key != replica.source.key) return true;
  const Digest& anchor = own ? replica.source.anchor : shared.anchor;
  const Digest& momentum = own ? replica.source.momentum : shared.momentum;
  return !anchor || (anchor == loaded.anchor && momentum == loaded.momentum);
}

// Its parameters come from files of its own host.
bool reads_weights(const JobRecord& job, const ReplicaRecord& replica) {
  return replica.source.kind == SourceKind::kSeed && !job.spec.model.init.empty();
}

// What differs between the hosts, if that is known.
std::string why_others(const State& state, const ReplicaRecord& replica, const Loaded& loaded) {
  const JobRecord& job = state.jobs.at(replica.job);
  if (reads_weights(job, replica)) {
    return ": the files at model.init differ from those that the first replica loaded; put the "
           "same "
           "files on every host";
  }
  if (job.spec.trainer.kind != TrainerKind::kPython) return "";
  return why_other_values(state, replica, loaded.value_count);
}

// The replicas of a stage that read the job's training data. It includes absent replicas that the
// job waits for, if they read it when they were last heard.
std::vector<ReplicaId> readers_of_data(const Transaction& tx, const JobRecord& job,
                                       StageIndex stage) {
  const State& state = tx.state();
  std::vector<ReplicaId> readers = in_sync_replicas(state, job, stage);
  if (job.rollback_at.ns == 0 || tx.now() < job.rollback_at) {
    std::ranges::copy_if(absent_in_sync_replicas(state, job, stage), std::back_inserter(readers),
                         [&](ReplicaId id) { return state.replicas.at(id).held_round >= 0; });
  }
  return readers;
}

// Any one of them, or null. Stage 0 reads the data; with a program, every stage does.
const ReplicaRecord* reader_of_data(const Transaction& tx, const JobRecord& job) {
  const bool program = job.spec.trainer.kind == TrainerKind::kPython;
  const StageIndex stages = program ? stage_count(job) : 1;
  for (StageIndex stage = 0; stage < stages; ++stage) {
    const auto readers = readers_of_data(tx, job, stage);
    if (!readers.empty()) return &tx.state().replicas.at(readers.front());
  }
  return nullptr;
}

std::string other_data(const JobRecord& job, const std::string& agent, const std::string& other) {
  if (job.spec.trainer.kind != TrainerKind::kPython) {
    return "data.train on " + agent + " is another file than " + other;
  }
  return "the program on " + agent + " reads other data, or cuts its model otherwise, than " +
         other;
}

// The first replica that reads data defines the job's data. Before the first commit the definition
// is forgotten with the last such replica, because nothing counts that was trained on it.
std::string settle_data(Transaction& tx, const ReplicaRecord& loaded, const Digest& data) {
  if (!data) return {};
  const JobRecord& job = tx.state().jobs.at(loaded.job);
  if (job.data == data) return {};
  const ReplicaRecord* reader = reader_of_data(tx, job);
  if (!job.data || (job.committed_round == 0 && reader == nullptr)) {
    tx.job(loaded.job).data = data;
    return {};
  }
  const std::string other = reader == nullptr
                                ? "the job's so far"
                                : "that of " + tx.state().agents.at(reader->agent).name;
  return other_data(job, tx.state().agents.at(loaded.agent).name, other) + " (digest " +
         to_hex(data) + ", not " + to_hex(job.data) + "): put the same file there";
}

// A replica that serves already says again that it has loaded: only its data may have changed. Or a
// restored job hears it for the first time, because it loaded while no coordinator listened.
void check_again(Transaction& tx, const Loaded& loaded) {
  const ReplicaRecord& replica = tx.state().replicas.at(loaded.replica);
  if (const std::string why = settle_data(tx, replica, loaded.data); !why.empty()) {
    fail_replica(tx, loaded.replica, ReplicaFailure::kDataInvalid, why);
  }
}

// A reducer has no state: it can average the present round, whatever round it was assigned at.
void serve_as_reducer(Transaction& tx, const Loaded& loaded) {
  transition(tx, loaded.replica, ReplicaState::kServing);
  ReplicaRecord& replica = tx.replica(loaded.replica);
  replica.address = loaded.address;
  tx.event(Severity::kInfo, event_kind::kReplicaServing,
           {.job = replica.job, .agent = replica.agent, .replica = replica.id},
           to_string(replica.id) + " is ready to average");
  refresh_agent(tx, replica.agent);
}

std::string with_source(const State& state, const ReplicaRecord& replica) {
  if (is_reducer(state, replica)) return " as a reducer";
  return std::string(", state from ") + to_string(replica.source.kind);
}

// Its leases and its share of the evaluation go to others. `left`: what its contribution to an open
// round becomes, kLost or kMoved.
void leave_round(Transaction& tx, const ReplicaRecord& ended, ContributionState left) {
  const JobRecord& job = tx.state().jobs.at(ended.job);
  const RoundKey key = next_key(job);
  const RoundRecord* round = tx.state().rounds.find(key);
  const ContributionRecord* known = tx.state().contributions.find({key, ended.id});
  if (known != nullptr && round->state == RoundState::kOpen) {
    JobRecord& ledger = tx.job(ended.job);
    ContributionRecord& contribution = tx.contribution(key, ended.id);
    give_back({ledger.next_sequence, ledger.returned}, contribution.leases);
    contribution.leases.clear();
    contribution.state = left;
  }
  const RoundKey committed{job.id, job.epoch, job.committed_round};
  if (tx.state().rounds.contains(committed)) pass_on_slices(tx, committed);
}

// Whether a replica may become absent instead of failing. One that is out of reach may be sound.
// And while every reachable replica of a stage is in doubt, the job waits before it gives the
// stage's committed state up.
bool may_come_back(const State& state, ReplicaId id, std::span<const ReplicaId> doubtful) {
  if (!can_be_absent(state, id)) return false;
  if (!is_within_reach(state, id)) return true;
  const ReplicaRecord& replica = state.replicas.at(id);
  const std::vector<ReplicaId> there =
      in_sync_replicas(state, state.jobs.at(replica.job), replica.stage);
  if (std::ranges::count(there, id) == 0) return false;
  return std::ranges::none_of(there, [&](ReplicaId other) {
    return is_within_reach(state, other) && std::ranges::count(doubtful, other) == 0;
  });
}

// Whether the job may wait for a hung replica: when the rounds continue without it, or when no
// other replica holds the stage. Otherwise the stage needs another replica.
bool may_wait_for(const State& state, ReplicaId id) {
  const ReplicaRecord& replica = state.replicas.at(id);
  if (replica.held_round < 0 || !can_be_absent(state, id)) return false;
  const JobRecord& job = state.jobs.at(replica.job);
  const std::vector<ReplicaId> there = in_sync_replicas(state, job, replica.stage);
  const auto others = std::ranges::count_if(there, [&](ReplicaId other) { return other != id; });
  return others == 0 || others >= job.spec.swarm.min_replicas;
}

// The initial parameters: the seed, a folder of the host, or another job's checkpoint.
StateSource first_source(const JobRecord& job, StateSource source) {
  const auto checkpoint = checkpoint_of_weights(job.spec.model.init);
  if (!checkpoint) return source;  // kSeed
  source.kind = SourceKind::kCheckpoint;
  source.checkpoint = *checkpoint;
  return source;
}

// The checkpoint that it came from is whole, as far as stages have loaded it: the last one says so.
void note_verified(Transaction& tx, const ReplicaRecord& before, const Loaded& loaded) {
  const StateSource& source = before.source;
  const CheckpointRecord* known = tx.state().checkpoints.find(source.checkpoint);
  const JobRecord& job = tx.state().jobs.at(before.job);
  const bool whole = source.kind == SourceKind::kCheckpoint && known != nullptr &&
                     known->key.round > 0 && known->key.round == loaded.key.round &&
                     weakest_stage(tx.state(), job).in_sync > 0;
  if (whole) tx.checkpoint(source.checkpoint).verified_at = tx.now();
}

}  // namespace

std::optional<StateSource> choose_source(const State& state, const JobRecord& job,
                                         StageIndex stage) {
  StateSource source;
  source.key = {job.id, job.epoch, job.committed_round};
  source.anchor = stage_of(job, stage).anchor;
  source.momentum = stage_of(job, stage).momentum;
  if (job.committed_round == 0) return first_source(job, source);
  // A stage agrees on its state within a moment of the commit. Only in asynchronous jobs, whose
  // commits follow one another without a pause, a joiner is compared with what its source reports.
  const bool settled = source.anchor || averages_in_groups(job) || job.recut_from;
  if (!settled && job.spec.sync.algorithm != SyncAlgorithm::kAsync) return std::nullopt;
  const CheckpointRecord* checkpoint = checkpoint_of_committed(state, job);
  // On a new cut each replica loads the checkpoint, and so confirms what the first one told.
  const bool recut = checkpoint != nullptr && checkpoint->id == job.recut_from;
  const ReplicaRecord* peer = recut ? nullptr : choose_peer(state, job, stage);
  if (peer != nullptr) {
    source.kind = SourceKind::kPeer;
    source.replica = peer->id;
    source.address = peer->address;
    if (averages_in_groups(job) || !source.anchor) {
      source.anchor = peer->anchor, source.momentum = peer->momentum;
    }
    return source;
  }
  if (checkpoint != nullptr) {
    source.kind = SourceKind::kCheckpoint;
    source.checkpoint = checkpoint->id;
    if (recut) return source;
    const CheckpointPart& part = checkpoint->parts.at(static_cast<std::size_t>(stage));
    source.anchor = part.anchor;
    source.momentum = part.momentum;
    return source;
  }
  // After a checkpoint of the same round, which has the moments of AdamW as well.
  const std::vector<PeerAddress> copies = copies_of_committed(state, job, stage);
  if (copies.empty()) return std::nullopt;
  source.kind = SourceKind::kPeer;
  source.replica = copies.front().replica;
  source.address = copies.front().address;
  return source;
}

void assign_replica(Transaction& tx, JobId job, const Place& place, const StateSource& source) {
  const JobRecord& owner = tx.state().jobs.at(job);
  SHOAL_CHECK(!is_terminal(owner.phase), "a replica of a job that has ended");
  SHOAL_CHECK(place.stage >= 0 && place.stage < stage_count(owner), "no such stage");
  ReplicaRecord record;
  record.id = ReplicaId(tx.counters().next_replica++);
  record.job = job;
  record.agent = place.agent;
  record.device = place.device;
  record.stage = place.stage;
  record.incarnation = tx.state().agents.at(place.agent).incarnation;
  record.source = source;
  record.epoch = source.key.epoch;
  record.store = tx.state().counters.store;
  record.created_at = tx.now();
  const ReplicaId id = tx.add(std::move(record)).id;
  transition(tx, id, ReplicaState::kLoading);
  send_assign(tx, tx.state().replicas.at(id));
  tx.event(Severity::kInfo, event_kind::kReplicaAssigned,
           {.job = job, .agent = place.agent, .replica = id},
           to_string(id) + " of stage " + std::to_string(place.stage) + " assigned to " +
               tx.state().agents.at(place.agent).name +
               with_source(tx.state(), tx.state().replicas.at(id)));
  refresh_agent(tx, place.agent);
}

void send_assign(Transaction& tx, const ReplicaRecord& told) {
  name_newest_round(tx, told.id);
  const ReplicaRecord replica = tx.state().replicas.at(told.id);
  const JobRecord& job = tx.state().jobs.at(replica.job);
  CommitRecord record = commit_record(tx.state(), job);
  const bool all = job.spec.sync.outer_state == OuterState::kSharded &&
                   replica.source.kind == SourceKind::kCheckpoint && job.committed_round > 0;
  // A replica that loads a checkpoint holds the whole momentum, so the record says so. Count 0: a
  // checkpoint found on disk, whose length only its loader will know.
  if (all) {
    record.momentum_holders = {{replica.id, "", 0, stage_of(job, replica.stage).value_count}};
  }
  std::vector<PeerAddress> sources = state_sources(tx.state(), replica);
  if (replica.source.kind == SourceKind::kPeer) {
    tx.volatile_state().joiners[replica.id].sources = sources;
  }
  const PartRange parts = parts_of_source(tx.state(), replica);
  tx.send(replica.agent,
          Assign{replica.id, replica.job, replica.device, replica.stage, cut_of(job),
                 spec_for(tx.state(), replica.agent, job.spec), replica.source,
                 SignedRecords(tx.state(), job, std::move(record)).of(replica.id), replica.store,
                 std::move(sources), job.owner, parts.first, parts.count});
}

void on_loaded(Transaction& tx, const Loaded& loaded) {
  const ReplicaRecord before = tx.state().replicas.at(loaded.replica);
  if (before.state != ReplicaState::kLoading) return check_again(tx, loaded);
  if (is_reducer(tx.state(), before)) return serve_as_reducer(tx, loaded);
  const JobRecord& job = tx.state().jobs.at(before.job);
  const bool of_epoch = loaded.key.job == job.id && loaded.key.epoch == job.epoch;
  if (of_epoch && !may_enter(tx, loaded)) return;
  if (const char* why = unwanted(job, loaded)) {
    return fail_replica(tx, loaded.replica, ReplicaFailure::kStale, why);
  }
  const JobStage& stage = stage_of(job, before.stage);
  if (!is_what_it_should_be(job, before, loaded)) {
    return fail_replica(tx, loaded.replica, ReplicaFailure::kDigestMismatch,
                        "it loaded other parameters than the committed ones" +
                            why_others(tx.state(), before, loaded));
  }
  if (const std::string why = settle_data(tx, before, loaded.data); !why.empty()) {
    return fail_replica(tx, loaded.replica, ReplicaFailure::kDataInvalid, why);
  }
  const bool first_of_all = !stage.anchor && job.committed_round == 0;
  // The state is that of a checkpoint on disk, or of one of another cut.
  const bool found = stage.value_count == 0;
  const bool defines = (first_of_all || found) && !has_own_anchor(job, before);
  if (defines) {
    JobStage& first = stage_of(tx.job(before.job), before.stage);
    first.anchor = loaded.anchor;
    first.momentum = loaded.momentum;
    first.value_count = loaded.value_count;
    first.fragments = loaded.fragments;
  }
  name_refused_sources(tx, loaded);
  const bool first_of_stage = in_sync_replicas(tx.state(), job, before.stage).empty();
  transition(tx, loaded.replica, ReplicaState::kServing);
  tx.volatile_state().joiners.erase(loaded.replica);
  tx.volatile_state().doubts.erase(before.source.checkpoint);
  tx.volatile_state().refusals.erase({before.job, before.agent});
  tx.volatile_state().slow_lines.erase({before.job, before.agent});
  ReplicaRecord& replica = tx.replica(loaded.replica);
  replica.held_round = loaded.key.round;
  replica.anchor = loaded.anchor;
  replica.momentum = loaded.momentum;
  replica.address = loaded.address;
  tx.event(Severity::kInfo, event_kind::kReplicaServing,
           {.job = before.job,
            .agent = before.agent,
            .replica = loaded.replica,
            .round = loaded.key.round},
           display_name(tx.state(), loaded.replica) + " holds round " +
               std::to_string(loaded.key.round));
  note_verified(tx, before, loaded);
  if (first_of_stage) note_restored(tx, tx.state().replicas.at(loaded.replica));
  take_over_slices(tx, loaded.replica);
  refresh_agent(tx, before.agent);
  // The next round may need another replica, which can get this state from no one else.
  if (before.source.kind == SourceKind::kPeer) return tell_to_go_on(tx, loaded.replica);
  // On a new cut, those that loaded before could not be given the digests of all stages.
  if (defines && anchors_known(job)) {
    return renew_records(tx, job.id, in_sync_replicas(tx.state(), job));
  }
  renew_record(tx, loaded.replica);
}

void tell_to_go_on(Transaction& tx, ReplicaId id) {
  const JobRecord& job = tx.state().jobs.at(tx.state().replicas.at(id).job);
  const RoundKey committed{job.id, job.epoch, job.committed_round};
  tx.tell(id, ResumeAt{committed, signed_record(tx.state(), job, id)});
}

void renew_record(Transaction& tx, ReplicaId id) {
  const ReplicaRecord* replica = tx.state().replicas.find(id);
  if (replica != nullptr) renew_records(tx, replica->job, {&id, 1});
}

void renew_records(Transaction& tx, JobId id, std::span<const ReplicaId> replicas) {
  const JobRecord& job = tx.state().jobs.at(id);
  if (job.committed_round == 0) return;
  const SignedRecords records(tx.state(), job, commit_record(tx.state(), job));
  for (const ReplicaId replica : replicas) {
    if (knows_renewal(tx.state(), job, replica)) tx.tell(replica, KeepRecord{records.of(replica)});
  }
}

void on_record_keys_changed(Transaction& tx, RecordKeys keys) {
  use_record_keys(tx.volatile_state(), std::move(keys));
  for (const auto& [id, job] : tx.state().jobs) {
    if (!is_terminal(job.phase)) renew_records(tx, id, live_replicas(tx.state(), id));
  }
}

void attend_joiners(Transaction& tx, JobId job) {
  for (const Loaded& loaded : take_waiting(tx, job)) on_loaded(tx, loaded);
  refresh_sources(tx, job);
}

void fail_replica(Transaction& tx, ReplicaId id, ReplicaFailure failure,
                  const std::string& detail) {
  if (failure == ReplicaFailure::kUnresponsive && may_come_back(tx.state(), id, {&id, 1})) {
    return become_absent(tx, id, detail);
  }
  transition(tx, id, ReplicaState::kFailed);
  ReplicaRecord& replica = tx.replica(id);
  replica.failure = failure;
  replica.detail = detail;
  const ReplicaRecord ended = replica;
  const State& state = tx.state();
  VolatileState& process = tx.volatile_state();
  tx.event(Severity::kWarning, event_kind::kReplicaFailed,
           {.job = ended.job, .agent = ended.agent, .replica = id},
           display_name(state, id) + " failed (" + to_string(failure) + ")" +
               (detail.empty() ? "" : ": " + detail));
  tx.send(ended.agent, Release{id, ReleaseReason::kReplaced});
  // What is wrong with the job says nothing about the device: other jobs find it ready.
  bool of_device = false;
  if (will_fail_again(failure)) {
    process.refusals.put({ended.job, ended.agent}, {failure, detail});
  } else {
    of_device = note_device_failure(tx, ended);
  }
  const bool reducer = is_reducer(state, ended);  // the job continues without it
  if (failure == ReplicaFailure::kOutOfMemory && !reducer) on_out_of_memory(tx, ended);
  JobRecord& job = tx.job(ended.job);
  if (counts_against_job(failure) && !of_device && !reducer) {
    ++job.failures_in_row;
    process.timers[ended.job].last_failure =
        to_string(failure) + (detail.empty() ? "" : ": " + detail);
  }
  if (!reducer) job.balance_at = tx.now();  // the balance has changed
  note_copy_fault(tx, ended);
  tx.drop_replica(id);
  leave_round(tx, ended, ContributionState::kLost);
  leave_checkpoints(tx, ended);
  const bool loaded = ended.held_round >= 0;
  refuse_recut(tx, ended, failure, detail);
  if (!loaded && failure == ReplicaFailure::kDigestMismatch) doubt_source(tx, ended, detail);
  refresh_agent(tx, ended.agent);
}

void on_replica_failed(Transaction& tx, const ReplicaFailed& failed) {
  const bool hangs = failed.failure == ReplicaFailure::kUnresponsive;
  if (hangs && may_wait_for(tx.state(), failed.replica)) {
    return become_absent(tx, failed.replica, failed.detail);
  }
  fail_replica(tx, failed.replica, failed.failure, failed.detail);
}

void exclude_replicas(Transaction& tx, std::span<const ReplicaId> excluded, ReplicaFailure failure,
                      const std::string& detail) {
  std::vector<ReplicaId> waited_for;
  if (failure != ReplicaFailure::kDigestMismatch) {
    std::ranges::copy_if(excluded, std::back_inserter(waited_for), [&](ReplicaId id) {
      return is_present(tx.state(), id) && may_come_back(tx.state(), id, excluded);
    });
  }
  for (const ReplicaId id : waited_for) become_absent(tx, id, detail);
  for (const ReplicaId id : excluded) {
    if (is_present(tx.state(), id)) fail_replica(tx, id, failure, detail);
  }
}

bool can_be_absent(const State& state, ReplicaId id) {
  const ReplicaRecord& replica = state.replicas.at(id);
  return replica.state != ReplicaState::kAssigned && !is_reducer(state, replica);
}

void become_absent(Transaction& tx, ReplicaId id, const std::string& why) {
  if (tx.state().replicas.at(id).state == ReplicaState::kAbsent) return;
  transition(tx, id, ReplicaState::kAbsent);
  ReplicaRecord& replica = tx.replica(id);
  replica.absent_since = tx.now();
  const ReplicaRecord absent = replica;
  tx.event(Severity::kWarning, event_kind::kReplicaAbsent,
           {.job = absent.job, .agent = absent.agent, .replica = id},
           display_name(tx.state(), id) + " is absent: " + why);
  const JobRecord& job = tx.state().jobs.at(absent.job);
  tx.job(absent.job).balance_at = tx.now();  // the balance has changed
  const RoundKey committed{job.id, job.epoch, job.committed_round};
  if (tx.state().rounds.contains(committed)) pass_on_slices(tx, committed);
  hand_over_parts(tx, absent);
}

void come_back(Transaction& tx, ReplicaId id) {
  if (tx.state().replicas.at(id).state != ReplicaState::kAbsent) return;
  const bool loads = tx.state().replicas.at(id).held_round < 0;
  transition(tx, id, loads ? ReplicaState::kLoading : ReplicaState::kServing);
  ReplicaRecord& replica = tx.replica(id);
  const Duration away = tx.now() - replica.absent_since;
  replica.absent_since = {};
  tx.event(
      Severity::kInfo, event_kind::kReplicaReturned,
      {.job = replica.job, .agent = replica.agent, .replica = id},
      display_name(tx.state(), id) + " is back after " + std::to_string(away.ms() / 1000) + " s");
}

void release_replica(Transaction& tx, ReplicaId id, ReleaseReason reason) {
  const ReplicaRecord ended = tx.state().replicas.at(id);
  transition(tx, id, ReplicaState::kReleased);
  tx.send(ended.agent, Release{id, reason});
  tx.drop_replica(id);
  refresh_agent(tx, ended.agent);
}

void let_go(Transaction& tx, ReplicaId id, ReleaseReason reason, ContributionState left) {
  const ReplicaRecord ended = tx.state().replicas.at(id);
  release_replica(tx, id, reason);
  leave_round(tx, ended, left);
  leave_checkpoints(tx, ended);
}

void check_load_limits(Transaction& tx, JobId job) {
  std::vector<ReplicaId> all = live_replicas(tx.state(), job);
  const std::vector<ReplicaId> reducers = live_reducers(tx.state(), job);
  all.insert(all.end(), reducers.begin(), reducers.end());
  for (const ReplicaId id : all) {
    const ReplicaRecord& replica = tx.state().replicas.at(id);
    if (replica.state != ReplicaState::kAssigned && replica.state != ReplicaState::kLoading)
      continue;
    const Instant limit = load_deadline(tx, replica);
    if (tx.now() < limit) {
      tx.schedule_wakeup(job, limit);
    } else if (load_has_moved(tx.state(), id)) {
      fail_replica(tx, id, ReplicaFailure::kSourceLost, "its load made no progress");
    } else {
      fail_replica(tx, id, ReplicaFailure::kUnresponsive, "it did not begin to load its state");
    }
  }
}

}  // namespace shoal::coordinator
