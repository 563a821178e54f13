// Driving the coordinator's core: see coordinator_process.h. The planted bugs of a driver are here,
// each behind misbehave().
#include "tests/sim/coordinator_process.h"

#include <algorithm>

#include "coordinator/core/state/state.h"
#include "tests/sim/describe.h"

namespace shoal::sim {

using namespace coordinator;

namespace {
constexpr std::int64_t kStepsAtOneInstant = 2000;
constexpr std::int64_t kCompareEvery = 8;  // drained moments; each of them costs a fresh core
}  // namespace

CoordinatorProcess::CoordinatorProcess(Sim& sim, Network& network)
    : sim_(sim),
      network_(network),
      process_(sim.queue),
      store_(sim.queue, mix_seed(sim.options.seed, 0x570e),
             [this](const Record& record, const Tables& before) { durable(record, before); }),
      prng_(sim.prng_for(0xc00d)) {
  store_.set_delay(sim.options.write_delay);
}

// ---- life

void CoordinatorProcess::boot() {
  process_.start();
  deaf_ = false;
  core_ = std::make_unique<Coordinator>(sim_.options.coordinator, tables().snapshot());
  sim_.log("coordinator starts");
  sim_.observe(&Checker::coordinator_started);
  input(Booted{mix_seed(sim_.options.seed, ++starts_) | 1});
}

void CoordinatorProcess::crash() {
  if (!process_.alive()) return;
  collect_transitions();
  process_.kill();
  effects_until_crash_ = 0;
  steps_.clear();
  commands_.clear();
  armed_.reset();
  core_.reset();
  store_.crash(sim_.misbehave(Bug::kLostFsync));
  network_.coordinator_died();
  if (on_crash) on_crash();
}

// What the machines did in this life; a step may make several moves, of which the record shows the
// last.
void CoordinatorProcess::collect_transitions() {
  if (!core_) return;
  for (const auto& [name, count] : core_->state().transitions) sim_.transitions[name] += count;
}

// ---- inputs

void CoordinatorProcess::agent_hello(ConnectionId connection, const Hello& hello) {
  if (!alive()) return;
  sim_.log("C< hello of " + hello.name + " on " + std::to_string(connection.n));
  input(AgentHello{connection, hello});
}

void CoordinatorProcess::agent_said(ConnectionId connection, const FromAgent& message) {
  if (!alive()) return;
  FromAgent said = message;
  std::visit(
      [&](const auto& body) {
        if constexpr (requires { body.replica; }) heard_on_[body.replica] = connection;
      },
      said);
  if (swallow(said)) return;
  const std::string line = describe(said);
  if (!line.empty()) sim_.log("C< " + std::to_string(connection.n) + " " + line);
  const bool forgive = forgives(said);
  const AgentId agent =
      forgive ? tables().replicas.at(std::get<ReplicaFailed>(said).replica).agent : AgentId();
  input(AgentSaid{connection, std::move(said)});
  if (forgive && alive()) input(CommandAgent{RequestId{++requests_}, agent, AgentVerb::kUncordon});
}

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

void CoordinatorProcess::agent_hung_up(ConnectionId connection) {
  if (!alive()) return;
  input(AgentHungUp{connection});
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
    if (!vote->body.left_out.empty() && sim_.misbehave(Bug::kSilentOwners)) {
      vote->body.left_out.clear();
    }
    if (sim_.bug == Bug::kOneStageAgrees) forge_votes(vote->body, vote->replica);
  }
  if (auto* report = std::get_if<FromReplica<RoundReport>>(&message)) {
    if (sim_.misbehave(Bug::kLostReports)) return true;
    if (sim_.misbehave(Bug::kDoubleCount)) report->body.drawn += report->body.drawn;
  }
  if (auto* broken = std::get_if<FromReplica<ReduceFailed>>(&message)) {
    const StageIndex stage = stage_of_replica(broken->replica);
    const auto vote = votes_.find({broken->body.key, stage, broken->body.attempt});
    if (vote != votes_.end() && sim_.misbehave(Bug::kForgedVote)) {
      const Vote forged{broken->body.key, broken->body.attempt, vote->second, {}, {}};
      const ReplicaId replica = broken->replica;
      message = FromReplica<Vote>{replica, forged};
    }
  }
  const auto* failed = std::get_if<ReplicaFailed>(&message);
  if (sim_.bug == Bug::kDeafCoordinator && failed != nullptr && needed(failed->replica)) {
    deaf_ = sim_.misbehave(sim_.bug);
  }
  return false;
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
        vote.key, stage_of(round->second, member.stage).attempt, vote.average, {}, {}};
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

void CoordinatorProcess::submit(const JobSpec& spec) {
  if (!alive()) return;
  sim_.log("user submits " + spec.name);
  sim_.observe(&Checker::submitted, spec);
  JobSpec told = spec;
  if (sim_.misbehave(Bug::kMinReplicasIgnored)) told.swarm.min_replicas = 1;
  input(SubmitJob{RequestId{++requests_}, told, false});
}

void CoordinatorProcess::cancel(JobId job) {
  if (alive()) input(CancelJob{RequestId{++requests_}, job});
}

void CoordinatorProcess::pause(JobId job) {
  if (alive()) input(PauseJob{RequestId{++requests_}, job});
}

void CoordinatorProcess::resume(JobId job) {
  if (alive()) input(ResumeJob{RequestId{++requests_}, job});
}

void CoordinatorProcess::command(AgentId agent, AgentVerb verb) {
  const bool waits = std::any_of(commands_.begin(), commands_.end(),
                                 [&](const auto& entry) { return entry.second.agent == agent; });
  if (!alive() || waits) return;
  if (verb == AgentVerb::kUncordon) sim_.observe(&Checker::commanded, agent, verb);
  const CommandAgent command{RequestId{++requests_}, agent, verb};
  commands_[command.request.n] = command;
  CommandAgent told = command;
  if (verb == AgentVerb::kCordon && sim_.misbehave(Bug::kForgottenCordon)) {
    told.verb = AgentVerb::kUncordon;
  }
  input(told);
}

void CoordinatorProcess::replied(const Reply& reply) {
  sim_.log(reply.result.ok() ? "reply " + to_string(reply.result.value())
                             : "reply " + reply.result.error().message);
  const auto command = commands_.find(reply.request.n);
  if (command == commands_.end()) return;
  const CommandAgent done = command->second;
  commands_.erase(command);
  if (!reply.result.ok() || done.verb == AgentVerb::kUncordon) return;
  sim_.observe(&Checker::commanded, done.agent, done.verb);
}

bool CoordinatorProcess::uploaded(const agent::CheckpointPartId& part,
                                  const CheckpointFiles& files) {
  if (!alive()) return false;
  files_[part] = files;
  sim_.log("C< uploaded " + to_string(part.checkpoint) + " stage " + std::to_string(part.stage));
  input(CheckpointUploaded{part.checkpoint, part.stage});
  return true;
}

void CoordinatorProcess::upload_given_up(const agent::CheckpointPartId& part) {
  if (!alive()) return;
  sim_.log("C< upload failed of " + to_string(part.checkpoint));
  input(CheckpointUploadFailed{part.checkpoint, part.stage, "the upload broke off"});
}

const CheckpointFiles* CoordinatorProcess::files(const agent::CheckpointPartId& part) const {
  const auto it = files_.find(part);
  return it == files_.end() ? nullptr : &it->second;
}

// ---- steps and effects

void CoordinatorProcess::input(const Input& input) {
  if (deaf_) return;
  if (sim_.now() != last_instant_) last_instant_ = sim_.now(), same_instant_ = 0;
  if (++same_instant_ > kStepsAtOneInstant)
    return sim_.violate("liveness", "the core stops the time");
  Step step;
  step.number = ++step_count_;
  core_->step(sim_.now(), input, step.effects);
  mutate(step.effects);
  sim_.observe(&Checker::emitted, Emitted{step.number, step.effects});
  steps_.push_back(std::move(step));
  write(steps_.back());
  arm();
  perform();
}

void CoordinatorProcess::write(Step& step) {
  std::vector<Record> records;
  for (const Effect& effect : step.effects) {
    if (const auto* persist = std::get_if<Persist>(&effect)) records.push_back(persist->record);
  }
  if (records.empty()) {
    step.durable = true;
    return;
  }
  store_.write(std::move(records),
               [this, number = step.number, generation = process_.generation()] {
                 sim_.observe(&Checker::written, tables());
                 if (generation != process_.generation() || !alive()) return;
                 for (Step& waiting : steps_) {
                   if (waiting.number == number) waiting.durable = true;
                 }
                 perform();
                 if (alive()) compare();
               });
  if (sim_.misbehave(Bug::kSendBeforePersist)) step.durable = true;
}

void CoordinatorProcess::perform() {
  while (!steps_.empty() && steps_.front().durable) {
    Step& step = steps_.front();
    if (step.next == step.effects.size()) {
      steps_.pop_front();
      continue;
    }
    const Effect effect = step.effects[step.next++];
    if (effects_until_crash_ > 0 && !std::holds_alternative<Persist>(effect) &&
        --effects_until_crash_ == 0) {
      sim_.strike(Fault::kCrashBetweenEffects, "of the coordinator");
      return crash();
    }
    perform_one(step, effect);
  }
}

void CoordinatorProcess::perform_one(const Step& step, const Effect& effect) {
  if (const auto* message = std::get_if<Send>(&effect)) {
    send(step, *message);
  } else if (const auto* disconnect = std::get_if<Disconnect>(&effect)) {
    network_.close_by_coordinator(disconnect->connection);
  } else if (const auto* reply = std::get_if<Reply>(&effect)) {
    replied(*reply);
  } else if (const auto* gone = std::get_if<DeleteCheckpointFiles>(&effect)) {
    files_.erase(files_.lower_bound({gone->checkpoint, 0}),
                 files_.upper_bound({gone->checkpoint, INT32_MAX}));
  }
}

void CoordinatorProcess::send(const Step& step, const Send& send) {
  const int host = network_.host_of(send.connection);
  if (host < 0) return;
  sim_.observe(&Checker::sent,
               Sent{step.number, step.next - 1, "host " + std::to_string(host), send.message},
               tables());
  if (const auto* release = std::get_if<Release>(&send.message)) {
    ++sim_.transitions[std::string("release ") + to_string(release->reason)];
  }
  const std::string line = describe(send.message);
  if (!line.empty()) sim_.log("C> host " + std::to_string(host) + " " + line);
  network_.send_down(send.connection, send.message);
}

void CoordinatorProcess::arm() {
  const std::optional<Instant> due = core_->next_deadline();
  if (!due) return;
  if (armed_ && *armed_ <= *due && *armed_ >= sim_.now()) return;
  armed_ = *due;
  process_.at(*due, [this, at = *due] {
    if (armed_ != at) return;  // an earlier one was armed since
    armed_.reset();
    input(Tick{});
  });
}

void CoordinatorProcess::durable(const Record& record, const Tables& before) {
  count_checkpoint_move(record, before, sim_.transitions);
  count_rejection(record, before, sim_.transitions);
  count_event(record, sim_.transitions);
  const std::string line = describe(record);
  if (!line.empty()) sim_.log("   durable " + line);
  sim_.observe(&Checker::durable, record, before);
}

// When everything is durable, the tables must be the state.
void CoordinatorProcess::compare() {
  if (!store_.idle() || --compare_in_ > 0) return;
  compare_in_ = kCompareEvery;
  const Coordinator fresh(sim_.options.coordinator, tables().snapshot());
  sim_.observe(&Checker::compared, core_->digest(), fresh.digest());
}

// ---- planted bugs of what the core says

void CoordinatorProcess::mutate_record(Record& record) {
  if (sim_.bug == Bug::kTwoOnDevice) {
    auto* replica = std::get_if<ReplicaRecord>(&record);
    if (replica != nullptr && replica->device > 0 && sim_.misbehave(sim_.bug)) replica->device = 0;
  }
  if (sim_.bug == Bug::kMixedCheckpoint) mix_cut(record);
  if (sim_.bug == Bug::kForgottenRelease) keep_replica(record);
  if (sim_.bug == Bug::kForgottenStep) forget_step(record);
}

// Of a job that is to pause a released replica stays in the records.
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
  if (sim_.bug != Bug::kSameView) return;
  for (Effect& effect : effects) {
    if (!is_view(effect)) continue;
    auto& view = std::get<ToReplica<PipelineView>>(std::get<Send>(effect).message).body;
    if (view.number > 1 && sim_.misbehave(sim_.bug)) view.number = 1;
  }
}

// A drained agent is told to let go at once, in the middle of a round.
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

void CoordinatorProcess::mutate(Effects& effects) {
  if (sim_.bug == Bug::kDropPersist && prng_.chance(0.02)) {
    const auto persist = std::find_if(effects.begin(), effects.end(), [](const Effect& e) {
      const auto* p = std::get_if<Persist>(&e);
      return p != nullptr && !std::holds_alternative<EventRecord>(p->record);
    });
    if (persist != effects.end() && sim_.misbehave(sim_.bug)) effects.erase(persist);
  }
  mutate_views(effects);
  if (sim_.bug == Bug::kHastyDrain) release_hastily(effects);
  if (sim_.bug == Bug::kForgottenReducer) forget_reducers(effects);
  for (Effect& effect : effects) {
    if (auto* persist = std::get_if<Persist>(&effect)) mutate_record(persist->record);
    auto* send = std::get_if<Send>(&effect);
    if (send == nullptr || sim_.bug != Bug::kLeaseTwice) continue;
    DataLease* lease = nullptr;
    ReplicaId replica;
    if (auto* commit = std::get_if<ToReplica<CommitRound>>(&send->message)) {
      lease = &commit->body.next.leases.at(0);
      replica = commit->replica;
    } else if (auto* open = std::get_if<ToReplica<OpenRound>>(&send->message)) {
      lease = &open->body.leases.at(0);
      replica = open->replica;
    }
    if (lease == nullptr || lease->count == 0) continue;
    const auto last = leases_.find(replica);
    if (last != leases_.end() && last->second.count == lease->count && last->second != *lease &&
        sim_.misbehave(sim_.bug)) {
      *lease = last->second;
    }
    leases_[replica] = *lease;
  }
}

}  // namespace shoal::sim
