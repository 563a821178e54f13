// The planted bugs of the coordinator: each breaks a rule of the core from outside, in what it
// hears or in what it says, as a core with that mistake would (tests/negative/bugs.h).
#include <algorithm>
#include <memory>
#include <utility>

#include "coordinator/core/rounds/line_times.h"
#include "coordinator/core/state/commit_proof.h"
#include "coordinator/core/state/state.h"
#include "tests/sim/coordinator_process.h"

namespace shoal::sim {

using namespace coordinator;

namespace {

// What is missing in the others other checkers notice, too.
bool seen_by_replay_only(const Record& record) {
  return std::holds_alternative<AgentRecord>(record) ||
         std::holds_alternative<CounterRecord>(record);
}

}  // namespace

// An outlier is a norm slightly above the median.
Options CoordinatorProcess::core_options() {
  Options options = sim_.options.coordinator;
  if (!sim_.misbehave(Bug::kHarshOutliers)) return options;
  options.outlier_factor = 1.01;
  options.outlier_members_min = 3;
  return options;
}

// ---- what the core hears

// A planted bug: what a device could not hold is forgotten as soon as it is known.
bool CoordinatorProcess::forgives(const FromAgent& message) {
  const auto* failed = std::get_if<ReplicaFailed>(&message);
  if (failed == nullptr || failed->failure != ReplicaFailure::kOutOfMemory) return false;
  const auto replica = tables().replicas.find(failed->replica);
  if (replica == tables().replicas.end()) return false;
  const auto agent = tables().agents.find(replica->second.agent);
  const bool sound = agent != tables().agents.end() && !agent->second.cordoned;
  return sound && sim_.misbehave(Bug::kForgivenMemory);
}

// Two planted bugs: the cordon of a device ends as soon as it begins.
void CoordinatorProcess::forgive_cards() {
  const bool sick = sim_.bug == Bug::kForgivenSickCards;
  if (!sick && sim_.bug != Bug::kForgivenCards) return;
  const DeviceRefusalKind kind = sick ? DeviceRefusalKind::kUnhealthy : DeviceRefusalKind::kFailing;
  std::vector<AgentId> cordoned;
  for (const auto& [id, agent] : core_->state().agents) {
    const auto count = std::ranges::count(agent.refusals, kind, &DeviceRefusal::kind);
    if (count > 0 && !agent.cordoned) cordoned.push_back(id);
  }
  for (const AgentId id : cordoned) {
    if (!alive() || !sim_.misbehave(sim_.bug)) return;
    input(CommandAgent{RequestId{++requests_}, id, AgentVerb::kUncordon});
  }
}

bool CoordinatorProcess::has_false_claim(const Hello& hello) const {
  const auto agent = std::ranges::find_if(
      tables().agents, [&](const auto& entry) { return entry.second.uid == hello.uid; });
  return agent != tables().agents.end() &&
         std::ranges::any_of(hello.replicas, [&](const HeldReplica& held) {
           return check_proof({kRecordKey}, agent->first, held) == ProofVerdict::kForged;
         });
}

// A planted bug: as if nobody had looked at the signatures.
void CoordinatorProcess::believe(Hello& hello) const {
  for (HeldReplica& held : hello.replicas) {
    CommitProof& proof = held.record.proof;
    if (proof.mac.empty()) continue;
    proof.replica = held.replica;
    proof.anchors.clear(), proof.momenta.clear();
    proof.mac = code_of(kRecordKey, held.record);
  }
}

StageIndex CoordinatorProcess::stage_of_replica(ReplicaId id) const {
  const auto replica = tables().replicas.find(id);
  return replica == tables().replicas.end() ? 0 : replica->second.stage;
}

// The planted bugs of what the core hears; true: it hears nothing.
bool CoordinatorProcess::swallow(FromAgent& message) {
  if (auto* vote = std::get_if<FromReplica<Vote>>(&message)) {
    const StageIndex stage = stage_of_replica(vote->replica);
    votes_[{vote->body.key, stage, vote->body.attempt}] = vote->body.average;
    if (!vote->body.seen.excluded.empty() && sim_.misbehave(Bug::kSilentOwners)) {
      vote->body.seen.excluded.clear();
    }
    PartSeen& seen = vote->body.seen;
    if (!seen.squares.empty() && sim_.misbehave(Bug::kUnreadSums)) seen.squares.clear();
    if (!seen.disputed.empty() && sim_.misbehave(Bug::kUnreadAudits)) seen.disputed.clear();
    if (sim_.bug == Bug::kOneStageAgrees) forge_votes(vote->body, vote->replica);
  }
  auto* loaded = std::get_if<Loaded>(&message);
  if (loaded != nullptr && loaded->data && sim_.misbehave(Bug::kUnreadDigest)) loaded->data = {};
  if (auto* report = std::get_if<FromReplica<RoundReport>>(&message)) {
    if (sim_.misbehave(Bug::kLostReports)) return true;
    if (sim_.misbehave(Bug::kDoubleCount)) report->body.drawn += report->body.drawn;
    for (LinkEstimate& link : report->body.links) {
      if (sim_.misbehave(Bug::kTurnedLines)) std::swap(link.to_per_s, link.from_per_s);
      if (sim_.bug == Bug::kRenewedLines) renew(report->replica, link);
    }
  }
  auto* written = std::get_if<CheckpointWritten>(&message);
  if (written != nullptr && sim_.bug == Bug::kUnreadList) invent_files(*written);
  const bool copies = std::holds_alternative<FromReplica<CopiesHeld>>(message);
  if (copies && sim_.misbehave(Bug::kUnreadCopies)) return true;
  if (auto* broken = std::get_if<FromReplica<ReduceFailed>>(&message)) {
    const StageIndex stage = stage_of_replica(broken->replica);
    const auto vote = votes_.find({broken->body.key, stage, broken->body.attempt});
    if (vote != votes_.end() && sim_.misbehave(Bug::kForgedVote)) {
      const Vote forged{broken->body.key, broken->body.attempt, vote->second, {}, {}};
      const ReplicaId replica = broken->replica;
      message = FromReplica<Vote>{replica, forged};
    }
  }
  auto* applied = std::get_if<FromReplica<Applied>>(&message);
  if (applied != nullptr && sim_.bug == Bug::kStaleMomentum) age_momentum(*applied);
  if (sim_.bug == Bug::kSleepingCore && applied != nullptr && prng_.chance(0.05)) {
    deaf_ = sim_.misbehave(sim_.bug);
  }
  const auto* failed = std::get_if<ReplicaFailed>(&message);
  if (sim_.bug == Bug::kDeafCoordinator && failed != nullptr && needed(failed->replica)) {
    deaf_ = sim_.misbehave(sim_.bug);
  }
  return false;
}

// The peer was only reached: the rate that is known of the line counts as measured now.
void CoordinatorProcess::renew(ReplicaId reporter, LinkEstimate& link) {
  const auto from = tables().replicas.find(reporter), to = tables().replicas.find(link.peer);
  if (from == tables().replicas.end() || to == tables().replicas.end()) return;
  const auto known = tables().links.find({from->second.agent, to->second.agent});
  const bool can = known != tables().links.end() && known->second.bytes_per_s > 0;
  if (!can || !link.reached || link.to_per_s > 0 || !sim_.misbehave(sim_.bug)) return;
  link.to_per_s = known->second.bytes_per_s;
}

// The core believes that a part has the files that its writer does not report.
void CoordinatorProcess::invent_files(CheckpointWritten& written) {
  for (const char* role : {"weights", "outer/momentum", "part"}) {
    const bool reported = std::ranges::count(written.files, role, &FileEntry::role) > 0;
    if (written.files.empty() || reported || !sim_.misbehave(sim_.bug)) continue;
    written.files.push_back(
        {std::string("invented/") + role, Bytes(1), written.files.front().sha256, role});
  }
}

// The members of all other stages vote the same at once.
void CoordinatorProcess::forge_votes(const Vote& vote, ReplicaId voter) {
  const auto round = tables().rounds.find(vote.key);
  const auto own = tables().contributions.find({vote.key, voter});
  if (round == tables().rounds.end() || own == tables().contributions.end()) return;
  std::vector<ContributionRecord> others;
  for (auto it = tables().contributions.lower_bound({vote.key, ReplicaId{}});
       it != tables().contributions.end() && it->first.first == vote.key; ++it) {
    const ContributionRecord& contribution = it->second;
    if (contribution.stage == own->second.stage) continue;
    if (contribution.state == ContributionState::kMember) others.push_back(contribution);
  }
  for (const ContributionRecord& member : others) {
    const auto connection = heard_on_.find(member.replica);
    if (connection == heard_on_.end() || !sim_.misbehave(Bug::kOneStageAgrees)) continue;
    const Vote forged{
        vote.key, reduce_at(round->second, member.stage).attempt, vote.average, {}, {}};
    input(AgentSaid{connection->second, FromReplica<Vote>{member.replica, forged}});
  }
}

// Without this replica its job has fewer than it needs.
bool CoordinatorProcess::needed(ReplicaId id) const {
  const auto replica = tables().replicas.find(id);
  if (replica == tables().replicas.end()) return false;
  const JobRecord& job = tables().jobs.at(replica->second.job);
  std::int64_t serving = 0;  // in its stage
  for (const auto& [other, record] : tables().replicas) {
    serving += record.job == job.id && record.stage == replica->second.stage &&
               (record.state == ReplicaState::kServing || record.state == ReplicaState::kAveraging);
  }
  return job.phase == JobPhase::kTraining && serving <= job.spec.swarm.min_replicas;
}

// The core believes that the momentum of all replicas is still that of the round before.
void CoordinatorProcess::age_momentum(FromReplica<Applied>& applied) {
  const StageIndex stage = stage_of_replica(applied.replica);
  auto& momenta = momenta_[{applied.body.key.job, stage}];
  momenta[applied.body.key.round] = applied.body.momentum;
  const auto before = momenta.find(applied.body.key.round - 1);
  const bool known = before != momenta.end() && before->second;
  if (known && sim_.misbehave(sim_.bug)) applied.body.momentum = before->second;
}

// The planted bugs of a core that hears too much.
void CoordinatorProcess::mishear(ConnectionId connection, const FromAgent& message) {
  if (sim_.bug == Bug::kSliceTwice) credit_twice(connection, message);
  if (sim_.bug == Bug::kBuriedAlive) bury_alive(message);
}

// An evaluation counts for its slice and for the next one.
void CoordinatorProcess::credit_twice(ConnectionId connection, const FromAgent& message) {
  const auto* told = std::get_if<FromReplica<Evaluated>>(&message);
  if (told == nullptr || told->body.slice.slices < 2 || !sim_.misbehave(sim_.bug)) return;
  FromReplica<Evaluated> forged = *told;
  forged.body.slice.slice = (forged.body.slice.slice + 1) % forged.body.slice.slices;
  input(AgentSaid{connection, forged});
}

// All replicas of a job are taken for dead while they train.
void CoordinatorProcess::bury_alive(const FromAgent& message) {
  const auto* applied = std::get_if<FromReplica<Applied>>(&message);
  if (applied == nullptr || applied->body.key.round < 2 || !prng_.chance(0.1)) return;
  std::vector<ReplicaId> buried;
  for (const auto& [id, replica] : tables().replicas) {
    const bool lives = replica.job == applied->body.key.job && !is_terminal(replica.state);
    if (lives && heard_on_.contains(id)) buried.push_back(id);
  }
  for (const ReplicaId id : buried) {
    if (!alive() || !sim_.misbehave(Bug::kBuriedAlive)) return;
    input(AgentSaid{heard_on_.at(id), ReplicaFailed{id, ReplicaFailure::kTrainerExited, "buried"}});
  }
}

// As soon as it is stored.
void CoordinatorProcess::delete_newest(CheckpointId stored) {
  if (!answers() || !sim_.misbehave(sim_.bug)) return;
  CheckpointRecord record;
  record.id = stored;
  input(CommandCheckpoint{RequestId{++requests_}, record, CheckpointVerb::kRemove, true});
}

// ---- what the core says

void CoordinatorProcess::mutate_record(Record& record) {
  if (sim_.bug == Bug::kTwoOnDevice) {
    auto* replica = std::get_if<ReplicaRecord>(&record);
    if (replica != nullptr && replica->device > 0 && sim_.misbehave(sim_.bug)) replica->device = 0;
  }
  if (sim_.bug == Bug::kMixedCheckpoint) mix_cut(record);
  if (sim_.bug == Bug::kForgottenRelease) keep_replica(record);
  if (sim_.bug == Bug::kForgottenStep) forget_step(record);
  if (sim_.bug == Bug::kForgottenRun) forget_run(record);
}

// A released replica of a pausing job stays in the records.
void CoordinatorProcess::keep_replica(Record& record) {
  auto* replica = std::get_if<ReplicaRecord>(&record);
  if (replica == nullptr || replica->state != ReplicaState::kReleased) return;
  const auto job = tables().jobs.find(replica->job);
  const bool pauses = job != tables().jobs.end() && job->second.desired == JobDesired::kPause;
  if (pauses && sim_.misbehave(sim_.bug)) replica->state = ReplicaState::kServing;
}

void CoordinatorProcess::forget_step(Record& record) {
  auto* job = std::get_if<JobRecord>(&record);
  if (job == nullptr || job->phase == JobPhase::kPaused || is_terminal(job->phase)) return;
  const auto before = tables().jobs.find(job->id);
  const bool goes_on = before != tables().jobs.end() && before->second.phase == JobPhase::kPaused;
  if (!goes_on || job->committed_round == 0 || !sim_.misbehave(sim_.bug)) return;
  job->committed_step = job->committed_step - Steps(1);
}

void CoordinatorProcess::forget_run(Record& record) {
  auto* job = std::get_if<JobRecord>(&record);
  if (job == nullptr || job->returned.empty() || is_terminal(job->phase)) return;
  if (sim_.misbehave(sim_.bug)) job->returned.pop_back();
}

// The last stage's part of a checkpoint is that of an earlier round.
void CoordinatorProcess::mix_cut(Record& record) {
  if (const auto* job = std::get_if<JobRecord>(&record)) {
    const auto old = tables().jobs.find(job->id);
    if (old == tables().jobs.end() || job->committed_round == old->second.committed_round) return;
    for (StageIndex stage = 0; stage < stage_count(old->second); ++stage) {
      const Digest& anchor = stage_of(old->second, stage).anchor;
      if (anchor) anchors_[{job->id, stage}] = anchor;
    }
  }
  auto* checkpoint = std::get_if<CheckpointRecord>(&record);
  if (checkpoint == nullptr || checkpoint->state != CheckpointState::kStored) return;
  const auto stage = static_cast<StageIndex>(checkpoint->parts.size()) - 1;
  const auto before = anchors_.find({checkpoint->key.job, stage});
  if (stage == 0 || before == anchors_.end()) return;
  if (sim_.misbehave(Bug::kMixedCheckpoint)) checkpoint->parts.back().anchor = before->second;
}

void CoordinatorProcess::mutate_views(Effects& effects) {
  const auto is_view = [](const Effect& effect) {
    const auto* send = std::get_if<Send>(&effect);
    return send != nullptr && std::holds_alternative<ToReplica<PipelineView>>(send->message);
  };
  if (sim_.bug == Bug::kLostViews && prng_.chance(0.2)) {
    const auto view = std::find_if(effects.begin(), effects.end(), is_view);
    if (view != effects.end() && sim_.misbehave(sim_.bug)) effects.erase(view);
  }
  for (Effect& effect : effects) {
    if (!is_view(effect)) continue;
    auto& view = std::get<ToReplica<PipelineView>>(std::get<Send>(effect).message).body;
    if (sim_.bug == Bug::kAncientLines) tell_ancient_lines(view);
    if (sim_.bug == Bug::kSameView && view.number > 1 && sim_.misbehave(sim_.bug)) view.number = 1;
  }
}

// What the view would say if all that was ever measured were measured now.
void CoordinatorProcess::tell_ancient_lines(PipelineView& view) {
  State ageless = core_->state();
  for (auto& [key, link] : ageless.links) link.measured_at = core_time();
  std::vector<ReplicaId> members;
  for (const PipelineMember& member : view.members) {
    if (ageless.replicas.contains(member.replica)) members.push_back(member.replica);
  }
  const JobRecord* job = ageless.jobs.find(view.job);
  if (job == nullptr || members.size() < view.members.size()) return;
  const std::vector<Duration> times = line_times(ageless, core_time(), *job, members);
  for (std::size_t i = 0; i < times.size(); ++i) {
    Duration& told = view.members[i].line_time;
    if (told == Duration() && times[i] > Duration() && sim_.misbehave(sim_.bug)) told = times[i];
  }
}

// A drained agent is told to release its replicas at once, in the middle of a round.
void CoordinatorProcess::release_hastily(Effects& effects) {
  Effects sends;
  for (const Effect& effect : effects) {
    const auto* persist = std::get_if<Persist>(&effect);
    const auto* agent = persist == nullptr ? nullptr : std::get_if<AgentRecord>(&persist->record);
    if (agent == nullptr || agent->state != AgentState::kDraining) continue;
    for (const auto& [id, replica] : tables().replicas) {
      const auto connection = heard_on_.find(id);
      if (replica.agent != agent->id || is_terminal(replica.state)) continue;
      if (connection == heard_on_.end() || !sim_.misbehave(Bug::kHastyDrain)) continue;
      sends.push_back(Send{connection->second, Release{id, ReleaseReason::kDraining}});
    }
  }
  effects.insert(effects.end(), sends.begin(), sends.end());
}

void CoordinatorProcess::forget_reducers(Effects& effects) {
  for (Effect& effect : effects) {
    auto* send = std::get_if<Send>(&effect);
    auto* plan = send == nullptr ? nullptr : std::get_if<ToReplica<ReducePlan>>(&send->message);
    if (plan == nullptr) continue;
    for (ReduceMember& member : plan->body.members) {
      if (member.reducer && sim_.misbehave(Bug::kForgottenReducer)) member.reducer = false;
    }
  }
}

// A move that undoes the last one: while its replica loads, or once it serves.
void CoordinatorProcess::move_again(Effects& effects) {
  bool is_due = false;
  for (const Effect& effect : effects) {
    const auto* shown = std::get_if<ShowPlacement>(&effect);
    const bool made = shown != nullptr && shown->has_new_move &&
                      shown->report->move->verdict == swarm::BalanceVerdict::kMoves;
    if (made) moved_ = shown->report, moved_to_ = {};
  }
  if (moved_ == nullptr) return;
  const MoveReport& move = *moved_->move;
  for (const Effect& effect : effects) {
    const auto* persist = std::get_if<Persist>(&effect);
    const auto* replica =
        persist == nullptr ? nullptr : std::get_if<ReplicaRecord>(&persist->record);
    if (replica == nullptr || replica->job != moved_->job) continue;
    const bool begins = moved_to_ == ReplicaId() && replica->state == ReplicaState::kLoading &&
                        replica->agent == move.agent && replica->stage == move.to;
    if (begins) moved_to_ = replica->id;
    const bool serves = replica->id == moved_to_ && replica->state == ReplicaState::kServing;
    is_due |= sim_.bug == Bug::kReturningMove && serves;
  }
  const bool loads = moved_to_ != ReplicaId() && tables().replicas.contains(moved_to_) &&
                     tables().replicas.at(moved_to_).state == ReplicaState::kLoading;
  is_due |= sim_.bug == Bug::kRestlessMove && loads;
  if (!is_due || !sim_.misbehave(sim_.bug)) return;
  PlacementReport undone = *moved_;
  undone.move->replica = moved_to_;
  std::swap(undone.move->from, undone.move->to);
  moved_.reset();
  effects.push_back(ShowPlacement{std::make_shared<const PlacementReport>(undone), true});
}

void CoordinatorProcess::mutate(Effects& effects) {
  if (sim_.bug == Bug::kDropPersist && prng_.chance(0.02)) {
    const auto persist = std::find_if(effects.begin(), effects.end(), [](const Effect& e) {
      const auto* p = std::get_if<Persist>(&e);
      return p != nullptr && seen_by_replay_only(p->record);
    });
    if (persist != effects.end() && sim_.misbehave(sim_.bug)) effects.erase(persist);
  }
  mutate_views(effects);
  if (sim_.bug == Bug::kHastyDrain) release_hastily(effects);
  if (sim_.bug == Bug::kForgottenReducer) forget_reducers(effects);
  if (sim_.bug == Bug::kRestlessMove || sim_.bug == Bug::kReturningMove) move_again(effects);
  for (Effect& effect : effects) {
    if (auto* persist = std::get_if<Persist>(&effect)) mutate_record(persist->record);
    if (auto* send = std::get_if<Send>(&effect)) mutate_leases(*send);
  }
}

void CoordinatorProcess::mutate_leases(Send& send) {
  if (sim_.bug != Bug::kLeaseTwice && sim_.bug != Bug::kOverlappingLease) return;
  OpenRound* order = nullptr;
  ReplicaId replica;
  if (auto* commit = std::get_if<ToReplica<CommitRound>>(&send.message)) {
    order = &commit->body.next;
    replica = commit->replica;
  } else if (auto* open = std::get_if<ToReplica<OpenRound>>(&send.message)) {
    order = &open->body;
    replica = open->replica;
  }
  if (order == nullptr || order->leases.empty()) return;
  const bool twice = sim_.bug == Bug::kLeaseTwice;
  auto& last = twice ? leases_[replica] : leases_of_round_[order->key];
  if (count_sequences(last) == count_sequences(order->leases) && last != order->leases &&
      sim_.misbehave(sim_.bug)) {
    order->leases = last;
  }
  last = order->leases;
}

}  // namespace shoal::sim
