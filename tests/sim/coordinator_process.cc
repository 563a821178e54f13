// Driving the coordinator's core: see coordinator_process.h. The planted bugs of the core itself
// are in coordinator_bugs.cc.
#include "tests/sim/coordinator_process.h"

#include <algorithm>
#include <iterator>

#include "coordinator/core/records/records.h"
#include "coordinator/core/state/state.h"
#include "tests/sim/bits.h"
#include "tests/sim/describe.h"

namespace shoal::sim {

using namespace coordinator;

namespace {
constexpr std::int64_t kStepsAtOneInstant = 2000;
// There is no bandwidth here: payloads take no time, and one question tells the round trip.
constexpr Duration kLineLimit = seconds(3);
constexpr double kLineMax = 1.25e9;        // as coordinator/service/line_ladder.h
constexpr double kLineSilent = 21'845;     // likewise: 64 KiB in 3 s
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
  store_.on_failure = [this](bool full) {
    sim_.strike(full ? Fault::kFullDisk : Fault::kFailedFsync, "of the coordinator");
  };
}

// ---- life

void CoordinatorProcess::boot() {
  process_.start();
  deaf_ = false;
  const Snapshot snapshot = tables().snapshot();
  booted_at_ = sim_.now();
  core_started_ = std::max(booted_at_ + time_of_day_, newest_instant(snapshot));
  core_ = std::make_unique<Coordinator>(core_options(), snapshot);
  sim_.log("coordinator starts");
  sim_.observe(&Checker::coordinator_started);
  Booted booted{mix_seed(sim_.options.seed, ++starts_) | 1, found_on_disk(), {kRecordKey}};
  for (const CheckpointRecord& found : booted.found) {
    sim_.log("on disk: " + to_string(found.id) + " of round " + std::to_string(found.key.round));
    sim_.observe(&Checker::on_disk, found, tables());
  }
  if (!booted.found.empty() && sim_.misbehave(Bug::kForgottenFolder)) booted.found.clear();
  input(booted);
}

// As coordinator/service/leftovers.h does.
std::vector<CheckpointRecord> CoordinatorProcess::found_on_disk() const {
  std::vector<CheckpointRecord> found;
  for (const auto& [id, manifest] : manifests_) {
    const auto row = tables().checkpoints.find(id);
    const bool pending =
        row != tables().checkpoints.end() && (row->second.state == CheckpointState::kWriting ||
                                              row->second.state == CheckpointState::kUploading);
    if (row != tables().checkpoints.end() && !pending) continue;
    bool whole = true;
    for (std::size_t stage = 0; stage < manifest.parts.size(); ++stage) {
      const CheckpointFiles* there = files({id, static_cast<StageIndex>(stage)});
      const auto& announced = manifest.parts[stage].files;
      whole &=
          there != nullptr && !announced.empty() && hash_of(*there) == announced.front().sha256;
    }
    if (whole) found.push_back(manifest);
  }
  return found;
}

void CoordinatorProcess::crash(StoreCrash store) {
  if (!process_.alive()) return;
  collect_transitions();
  process_.kill();
  effects_until_crash_ = 0;
  steps_.clear();
  commands_.clear();
  line_probes_.clear();
  armed_.reset();
  core_.reset();
  if (sim_.misbehave(Bug::kLostFsync)) store = StoreCrash::kLoseDurable;
  store_.crash(store);
  network_.coordinator_died();
  if (on_crash) on_crash();
}

void CoordinatorProcess::pause() {
  process_.pause();
  store_.pause();
  network_.coordinator_stopped();
}

void CoordinatorProcess::restore(std::size_t back, bool forgotten) {
  crash();
  store_.restore(back);
  if (sim_.misbehave(Bug::kUnmarkedBackup)) store_.forget_mark();
  for (const auto& [part, files] : deleted_files_) {  // the backup has those that it names
    if (tables().checkpoints.contains(part.checkpoint)) files_.emplace(part, files);
  }
  sim_.log("the coordinator's store is a backup");
  sim_.observe(&Checker::restored, tables(), forgotten);
}

void CoordinatorProcess::resume() {
  if (!stopped()) return;
  sim_.log("coordinator continues");
  resumed_at_ = sim_.now();
  sim_.observe(&Checker::coordinator_continued);
  store_.resume();
  process_.resume();
}

// What the machines did in this life; a step may make several moves, of which the record shows the
// last.
void CoordinatorProcess::collect_transitions() {
  if (!core_) return;
  for (const auto& [name, count] : core_->state().transitions) sim_.transitions[name] += count;
}

// ---- inputs

void CoordinatorProcess::agent_hello(ConnectionId connection, const Hello& hello) {
  process_.when_running([this, connection, hello, from = network_.host_of(connection)] {
    sim_.log("C< hello of " + hello.name + " on " + std::to_string(connection.n));
    heard_from_[hello.uid] = from;
    Hello heard = hello;
    if (has_false_claim(hello) && sim_.misbehave(Bug::kUnreadProofs)) believe(heard);
    input(AgentHello{connection, std::move(heard)});
  });
}

void CoordinatorProcess::agent_said(ConnectionId connection, const FromAgent& message) {
  process_.when_running([this, connection, message] { hear(connection, message); });
}

void CoordinatorProcess::hear(ConnectionId connection, const FromAgent& message) {
  FromAgent said = message;
  std::visit(
      [&](const auto& body) {
        if constexpr (requires { body.replica; }) heard_on_[body.replica] = connection;
      },
      said);
  if (swallow(said)) return;
  const std::string line = describe(said);
  if (!line.empty()) sim_.log("C< " + std::to_string(connection.n) + " " + line);
  if (const auto* answer = std::get_if<LineMeasured>(&said)) {
    return line_measured(connection, answer->id, true);
  }
  const bool forgive = forgives(said);
  const AgentId agent =
      forgive ? tables().replicas.at(std::get<ReplicaFailed>(said).replica).agent : AgentId();
  const FromAgent heard = said;
  input(AgentSaid{connection, std::move(said)});
  if (alive()) mishear(connection, heard);
  if (forgive && alive()) input(CommandAgent{RequestId{++requests_}, agent, AgentVerb::kUncordon});
  if (alive()) forgive_cards();
}

void CoordinatorProcess::agent_hung_up(ConnectionId connection) {
  process_.when_running([this, connection] { input(AgentHungUp{connection}); });
}

void CoordinatorProcess::submit(const JobSpec& spec) {
  if (!answers()) return;
  sim_.log("user submits " + spec.name);
  sim_.observe(&Checker::submitted, spec);
  JobSpec told = spec;
  if (sim_.misbehave(Bug::kMinReplicasIgnored)) told.swarm.min_replicas = 1;
  if (sim_.misbehave(Bug::kPriorityIgnored)) told.swarm.priority = kPriorityDefault;
  SubmitJob command{RequestId{++requests_}, told, false};
  command.lease_unit = lease_unit_of(spec);
  input(command);
}

// In half of the runs as of jobs over datasets, which are leased in whole runs: of one batch to
// many.
std::int64_t CoordinatorProcess::lease_unit_of(const JobSpec& spec) const {
  constexpr std::uint64_t kSalt = 0x1ea5e, kBatchesMax = 24;
  Prng draw(mix_seed(sim_.options.seed, kSalt));
  if (draw.chance(0.5)) return 0;
  return spec.train.batch * static_cast<std::int64_t>(1 + draw.below(kBatchesMax));
}

void CoordinatorProcess::cancel(JobId job) {
  if (answers()) input(CancelJob{RequestId{++requests_}, job});
}

void CoordinatorProcess::pause(JobId job) {
  if (answers()) input(PauseJob{RequestId{++requests_}, job});
}

void CoordinatorProcess::resume(JobId job) {
  if (answers()) input(ResumeJob{RequestId{++requests_}, job});
}

void CoordinatorProcess::command(AgentId agent, AgentVerb verb) {
  const bool waits = std::any_of(commands_.begin(), commands_.end(),
                                 [&](const auto& entry) { return entry.second.agent == agent; });
  if (!answers() || waits) return;
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

std::string hash_of(const CheckpointFiles& files) {
  const replica::StateDigests digests = replica::digests_of(files.state);
  return to_hex(digests.anchor) + to_hex(digests.momentum);
}

bool CoordinatorProcess::uploaded(const agent::CheckpointPartId& part, const CheckpointFiles& files,
                                  const std::vector<FileEntry>& announced) {
  if (!answers()) return false;
  if (announced.empty() || announced.front().sha256 != hash_of(files)) {
    upload_given_up(part);
    return false;
  }
  const std::vector<FileEntry> recorded = announced_files(part);
  const bool invented = sim_.bug == Bug::kUnreadList && recorded.size() > announced.size();
  if (announced != recorded && !invented) return false;  // another writer has announced the part
  files_[part] = files;
  sim_.observe(&Checker::files_stored, FilesStored{part.checkpoint, part.stage, files.key,
                                                   replica::digests_of(files.state), announced});
  sim_.log("C< uploaded " + to_string(part.checkpoint) + " stage " + std::to_string(part.stage));
  input(CheckpointUploaded{part.checkpoint, part.stage, recorded});
  if (sim_.bug == Bug::kGreedyBudget) delete_newest(part.checkpoint);
  return true;
}

std::vector<FileEntry> CoordinatorProcess::announced_files(
    const agent::CheckpointPartId& part) const {
  const auto it = tables().checkpoints.find(part.checkpoint);
  const auto stage = static_cast<std::size_t>(part.stage);
  if (it == tables().checkpoints.end() || it->second.parts.size() <= stage) return {};
  return it->second.parts[stage].files;
}

std::string CoordinatorProcess::announced_hash(const agent::CheckpointPartId& part) const {
  const std::vector<FileEntry> files = announced_files(part);
  return files.empty() ? std::string() : files.front().sha256;
}

void CoordinatorProcess::upload_given_up(const agent::CheckpointPartId& part) {
  if (!answers()) return;
  if (sim_.misbehave(Bug::kAssumedUpload)) {
    return input(CheckpointUploaded{part.checkpoint, part.stage, announced_files(part)});
  }
  sim_.log("C< upload failed of " + to_string(part.checkpoint));
  input(CheckpointUploadFailed{part.checkpoint, part.stage, "the upload was interrupted"});
}

void CoordinatorProcess::flip_stored_bit(std::uint64_t pick) {
  auto it = files_.begin();
  std::advance(it, static_cast<std::ptrdiff_t>(pick % files_.size()));
  flip_bit(it->second.state.anchor, pick);
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
  core_->step(core_time(), input, step.effects);
  mutate(step.effects);
  sim_.observe(&Checker::emitted, Emitted{step.number, step.effects});
  if (sim_.broken) log_decided(step.effects);  // it never gets durable
  steps_.push_back(std::move(step));
  write(steps_.back());
  arm();
  perform();
}

void CoordinatorProcess::log_decided(const coordinator::Effects& effects) {
  for (const Effect& effect : effects) {
    const auto* persist = std::get_if<Persist>(&effect);
    const std::string line = persist == nullptr ? std::string() : describe(persist->record);
    if (!line.empty()) sim_.log("    decided " + line);
  }
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
               [this, number = step.number, generation = process_.generation()](bool durable) {
                 if (durable) sim_.observe(&Checker::written, tables());
                 if (generation == process_.generation() && alive()) written(number, durable);
               });
  if (sim_.misbehave(Bug::kSendBeforePersist)) step.durable = true;
}

// A failed write ends the process: nothing may be said that is not durable.
void CoordinatorProcess::written(std::int64_t number, bool durable) {
  if (!durable && !sim_.misbehave(Bug::kIgnoredFsync)) {
    sim_.log("the coordinator's store fails");
    return crash();
  }
  for (Step& waiting : steps_) {
    if (waiting.number == number) waiting.durable = true;
  }
  perform();
  if (alive()) compare();
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
  } else if (const auto* line = std::get_if<MeasureHostLine>(&effect)) {
    measure_line(line->connection);
  } else if (const auto* gone = std::get_if<DeleteCheckpointFiles>(&effect)) {
    const auto first = files_.lower_bound({gone->checkpoint, 0});
    const auto last = files_.upper_bound({gone->checkpoint, INT32_MAX});
    deleted_files_.insert(first, last);
    files_.erase(first, last);
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

void CoordinatorProcess::measure_line(ConnectionId connection) {
  const int host = network_.host_of(connection);
  if (host < 0) return;
  const MeasureLine question{.payload = {}, .id = ++line_ids_};
  sim_.log("C> host " + std::to_string(host) + " " + describe(ToAgent(question)));
  line_probes_[connection] = {question.id, sim_.now()};
  network_.send_down(connection, question);
  process_.after(kLineLimit,
                 [this, connection, id = question.id] { line_measured(connection, id, false); });
}

void CoordinatorProcess::line_measured(ConnectionId connection, std::uint64_t id, bool answered) {
  const auto probe = line_probes_.find(connection);
  if (probe == line_probes_.end() || probe->second.id != id) return;
  HostLine line{.up = kLineSilent, .down = kLineSilent};
  if (answered) line = {kLineMax, kLineMax, sim_.now() - probe->second.sent_at};
  line_probes_.erase(probe);
  input(HostLineMeasured{connection, line});
}

void CoordinatorProcess::arm() {
  std::optional<Instant> due = core_->next_deadline();
  if (!due) return;
  due = booted_at_ + (*due - core_started_);
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
  const auto* checkpoint = std::get_if<CheckpointRecord>(&record);
  const bool stored = checkpoint != nullptr && checkpoint->state == CheckpointState::kStored;
  if (stored) manifests_[checkpoint->id] = *checkpoint;
  sim_.observe(&Checker::durable, record, before);
}

// When everything is durable, the tables must be the state.
void CoordinatorProcess::compare() {
  if (!store_.idle() || --compare_in_ > 0) return;
  compare_in_ = kCompareEvery;
  const Coordinator fresh(core_options(), tables().snapshot());
  sim_.observe(&Checker::compared, core_->digest(), fresh.digest());
}

}  // namespace shoal::sim
