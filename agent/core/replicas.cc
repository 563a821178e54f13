// Replicas of this host: assigned, loaded once their trainer and their files are there, passed to
// and from, and ended. An ended one is remembered, so that a late repetition of its Assign does not
// revive it.
#include <algorithm>

#include "agent/core/state.h"
#include "base/number_text.h"
#include "swarm/core/plan/cost_model.h"

namespace shoal::agent {
namespace {

// The memory that one replica of this assignment takes on its device. For a reducer, whose part is
// not known yet, it is all values of the stage and their encoding.
Bytes memory_of(const Assign& message, DeviceKind kind) {
  const swarm::CostModel model(message.spec, swarm::cost_options(message.spec));
  const UnitRange units =
      message.cut.empty() ? model.whole() : message.cut.at(static_cast<std::size_t>(message.stage));
  if (kind != DeviceKind::kReducer) return model.memory(units);
  return Bytes(2 * static_cast<std::int64_t>(sizeof(float)) * model.parameters(units));
}

}  // namespace

void Agent::State::assign(const Assign& message) {
  const bool ended = std::find(released.begin(), released.end(), message.replica) != released.end();
  if (ended) return;
  if (Replica* known = replicas.find(message.replica)) return assign_again(*known, message);
  if (!has_device(message.device)) {
    return refuse(message.replica, ReplicaFailure::kInternal,
                  "this agent has no device " + std::to_string(message.device));
  }
  if (replicas.size() >= static_cast<std::size_t>(options.replicas_max)) {
    return refuse(message.replica, ReplicaFailure::kInternal,
                  "this agent already holds " + std::to_string(options.replicas_max) + " replicas");
  }
  if (const auto why = why_not_run_here(message)) {
    return refuse(message.replica, ReplicaFailure::kInternal, *why);
  }
  if (const auto why = no_memory_for(message)) {
    return refuse(message.replica, ReplicaFailure::kOutOfMemory, *why);
  }
  const auto slot = slot_for(message.device);
  if (!slot) {
    return refuse(message.replica, ReplicaFailure::kInternal,
                  "device " + std::to_string(message.device) + " already runs " +
                      std::to_string(options.trainers_per_device_max) + " trainers");
  }
  Replica& replica = take_on(message, *slot);
  replica.due = now + options.assign_limit;
  want_code(replica);
  prepare(replica);
  if (message.source.kind == SourceKind::kCheckpoint) {
    const CheckpointPartId part = source_of(message);
    want_fetch(part);
    if (!fetches.at(part).complete) replica.due.reset();  // the fetch has its own deadline
  }
  load_what_is_ready();
}

// A joiner gets other sources, or a newer round than the one it was to load.
void Agent::State::assign_again(Replica& replica, const Assign& message) {
  if (message.source.kind != SourceKind::kPeer) return;
  replica.assign = message;
  replica.coming.expect(message.record);
  const Trainer& trainer = trainers[static_cast<std::size_t>(replica.slot)];
  if (replica.state == ReplicaState::kWaiting || !trainer.attached) return;
  replica.load_repeated = say_load(replica);
}

Replica& Agent::State::take_on(const Assign& message, std::int32_t slot) {
  Replica replica{.assign = message, .slot = slot};
  replica.coming.expect(message.record);
  replica.held = {.replica = message.replica,
                  .store = message.store,
                  .job = message.job,
                  .stage = message.stage,
                  .device = message.device,
                  .key = {message.job, 0, -1},
                  .cut = message.cut,
                  .spec = message.spec};
  return replicas.put(message.replica, std::move(replica));
}

// The sum over the replicas of this device; other devices of the host are not counted.
std::optional<std::string> Agent::State::no_memory_for(const Assign& message) const {
  const Device& device = trainers[static_cast<std::size_t>(message.device)].device;
  Bytes held;
  for (const auto& [id, replica] : replicas) {
    if (replica.assign.device == message.device) held += memory_of(replica.assign, device.kind);
  }
  const Bytes needed = memory_of(message, device.kind);
  const Bytes there = device.memory;
  if (held + needed <= there) return std::nullopt;
  const auto text = [](Bytes bytes) { return size_text(static_cast<double>(bytes.count())); };
  return "it needs " + text(needed) + "; device " + std::to_string(message.device) + " has " +
         text(there) + ", of which " + text(held) + " is in use";
}

void Agent::State::load_what_is_ready() {
  for (auto& [id, replica] : replicas) {
    if (replica.state != ReplicaState::kWaiting) continue;
    const Trainer& trainer = trainers[static_cast<std::size_t>(replica.slot)];
    if (trainer.state != TrainerState::kReady || !trainer.attached || trainer.releasing) continue;
    if (!trainer.identified) continue;
    if (trainer.identity.runs != runs_of(replica.assign)) continue;  // its code is not here yet
    if (is_too_old_for(replica)) {
      replace_trainer(replica.slot);
      continue;
    }
    const bool program = trainer.identity.runs.kind == TrainerKind::kPython;
    if (program && trainer.identity.replica != id) continue;
    if (!say_load(replica)) continue;
    move(replica.state, ReplicaEvent::kLoad);
    replica.due = now + load_limit_of(replica);
  }
}

// A trainer of protocol 4 cannot read part files (docs/checkpoints.md), one of protocol 6 no
// checkpoint of another cut. An earlier start of the daemon began it; the next process of the slot
// is of this version.
bool Agent::State::is_too_old_for(const Replica& replica) const {
  constexpr std::int32_t kFirstWithPartFiles = 5, kFirstWithOuterMethods = 8;  // and e5m2
  const SyncSpec& sync = replica.assign.spec.sync;
  const bool is_new = sync.codec == CodecKind::kE5m2 || sync.outer.method != OuterMethod::kNesterov;
  const std::int32_t spoken = trainers[static_cast<std::size_t>(replica.slot)].protocol;
  if (is_new && spoken < kFirstWithOuterMethods) return true;
  if (replica.assign.source.kind != SourceKind::kCheckpoint) return false;
  const bool other_cut = replica.assign.checkpoint_parts > 0;
  return trainers[static_cast<std::size_t>(replica.slot)].protocol <
         (other_cut ? kFirstWithOtherCuts : kFirstWithPartFiles);
}

void Agent::State::replace_trainer(std::int32_t slot) {
  Trainer& trainer = trainers[static_cast<std::size_t>(slot)];
  stop_trainer(slot);
  trainer.replaced = true;
  trainer.due = now + options.drain_limit;
}

// False: its files are not here. Checkpoints and Python programs show the name of the job, and
// trainers before protocol 8 require one.
bool Agent::State::say_load(const Replica& replica) {
  LoadReplica load{replica.assign, ""};
  load.assign.spec.name = job_name(replica.assign);
  if (replica.assign.source.kind == SourceKind::kCheckpoint) {
    const Fetch* fetch = fetches.find(source_of(replica.assign));
    if (fetch == nullptr || !fetch->complete) return false;
    load.checkpoint_folder = fetch->folder;
  }
  identify(replica.slot, identity_of(replica.assign));
  emit(SendTrainer{trainer_id(replica.slot), std::move(load)});
  return true;
}

void Agent::State::release(const Release& message) {
  const Replica* replica = replicas.find(message.replica);
  outbox.forget_last_words(message.replica);
  if (replica != nullptr) {
    if (replica->state != ReplicaState::kWaiting) {
      forward(message.replica, message);
      await_release(replica->slot);
    }
    end_replica(message.replica);
  } else if (std::find(released.begin(), released.end(), message.replica) == released.end()) {
    remember_released(message.replica);
  }
}

// The trainer's compute thread notices the release between two pieces of work, or never. Until then
// nothing else is loaded there.
void Agent::State::await_release(std::int32_t slot) {
  Trainer& trainer = trainers[static_cast<std::size_t>(slot)];
  if (trainer.state != TrainerState::kReady) return;
  if (trainer.unresponsive) return kill_trainer(slot, "it hung, and its replica was released");
  if (!trainer.attached) return;
  trainer.releasing = true;
  trainer.due = now + options.release_limit;
}

void Agent::State::end_replica(ReplicaId id) {
  move(replicas.at(id).state, ReplicaEvent::kEnd);
  const std::int32_t slot = replicas.at(id).slot;
  replicas.erase(id);
  retire(slot);
  outbox.forget(id);
  drop_unfinished_uploads(id);
  remember_released(id);
  drop_unused_fetches();
  drop_unused_code();
}

void Agent::State::remember_released(ReplicaId id) {
  released.push_back(id);
  if (released.size() > static_cast<std::size_t>(options.released_kept))
    released.erase(released.begin());
}

void Agent::State::fail_replica(ReplicaId id, ReplicaFailure failure, std::string detail) {
  end_replica(id);
  say_failed(id, failure, std::move(detail));
}

// A repeated load may have crossed this message: the trainer then begins what it has just given up,
// and must release it before it gets another.
void Agent::State::trainer_gave_up(const ReplicaFailed& message) {
  const Replica& replica = replicas.at(message.replica);
  if (replica.load_repeated) {
    forward(message.replica, Release{message.replica});
    await_release(replica.slot);
  }
  fail_replica(message.replica, message.failure, message.detail);
}

// Fails a replica whose load never began.
void Agent::State::refuse(ReplicaId id, ReplicaFailure failure, std::string detail) {
  remember_released(id);
  say_failed(id, failure, std::move(detail));
}

void Agent::State::say_failed(ReplicaId id, ReplicaFailure failure, std::string detail) {
  const ReplicaFailed message{id, failure, std::move(detail)};
  const auto said_at = say_now(message);
  outbox.keep_last_words(id, message, said_at);
}

// Replicas that wait for a trainer keep waiting for the next process. A program of the job would
// end in the same way again.
void Agent::State::fail_replicas_of(std::int32_t slot, const std::string& detail, bool for_memory) {
  std::vector<ReplicaId> lost;
  const TrainerSpec& runs = trainers[static_cast<std::size_t>(slot)].identity.runs;
  const bool program = runs.kind == TrainerKind::kPython;
  for (const auto& [id, replica] : replicas) {
    const bool waits = replica.state == ReplicaState::kWaiting && !program;
    if (replica.slot == slot && !waits) lost.push_back(id);
  }
  for (const ReplicaId id : lost) {
    if (for_memory && ran_out(replicas.at(id))) {
      fail_replica(id, ReplicaFailure::kOutOfMemory,
                   detail +
                       ", again, while the kernel ended processes for want of memory: the "
                       "host, or a cgroup around this agent, has less than the device says");
    } else {
      fail_replica(id, ReplicaFailure::kTrainerExited, detail);
    }
  }
}

bool Agent::State::ran_out(const Replica& replica) {
  constexpr std::size_t kPlacesMax = 256;
  const KilledPlace place{replica.assign.job, replica.assign.stage, replica.assign.device};
  if (kills.size() >= kPlacesMax && !kills.contains(place)) kills.erase(kills.begin()->first);
  if (++kills[place] < 2) return false;
  kills.erase(place);
  return true;
}

void Agent::State::replica_due(ReplicaId id) {
  Replica* replica = replicas.find(id);
  if (replica == nullptr) return;
  replica->due.reset();
  if (!running()) return;  // its trainer is told to stop, or has ended
  const std::int32_t device = replica->assign.device, slot = replica->slot;
  if (replica->state == ReplicaState::kLoading) {
    return kill_trainer(slot, "its load of a replica makes no progress");
  }
  if (replica->state == ReplicaState::kServing) {
    return fail_replica(id, ReplicaFailure::kTrainerExited,
                        "the trainer of device " + std::to_string(device) +
                            " lost its connection to this agent, and returned without the replica");
  }
  const std::string last = trainers[static_cast<std::size_t>(slot)].last_exit;
  fail_replica(id, ReplicaFailure::kTrainerExited,
               "the trainer of device " + std::to_string(device) + " did not become ready in time" +
                   (last.empty() ? "" : "; the last one " + last));
}

// For a replica that its trainer knows; anything else is outdated.
void Agent::State::forward(ReplicaId id, ToTrainer message) {
  const Replica* replica = replicas.find(id);
  if (replica == nullptr || replica->state == ReplicaState::kWaiting) return drop();
  const Trainer& trainer = trainers[static_cast<std::size_t>(replica->slot)];
  if (!trainer.attached || trainer.state != TrainerState::kReady) return drop();
  emit(SendTrainer{trainer_id(replica->slot), std::move(message)});
}

void Agent::State::expect_commit(ReplicaId id, const CommitRecord& record) {
  if (Replica* replica = replicas.find(id)) replica->coming.expect(record);
}

// A trainer of protocol 4 does not know the message; the agent's copy is the one that counts.
void Agent::State::keep_record(const ToReplica<KeepRecord>& message) {
  Replica* replica = replicas.find(message.replica);
  if (replica == nullptr) return drop();
  const CommitRecord& record = message.body.record;
  if (!replica->coming.renew(record) && replica->held.key == record.key) {
    replica->held.record = record;
  }
  const Trainer& trainer = trainers[static_cast<std::size_t>(replica->slot)];
  if (trainer.protocol >= 5) forward(message.replica, message);
}

void Agent::State::applied(ReplicaId id, const Applied& message) {
  Replica* replica = replicas.find(id);
  auto record = replica == nullptr ? std::nullopt : replica->coming.take(message.key);
  if (!record) return;
  replica->held.key = message.key;
  replica->held.anchor = message.anchor;
  replica->held.momentum = message.momentum;
  replica->held.record = std::move(*record);
  kills.erase({replica->assign.job, replica->assign.stage, replica->assign.device});
}

// A progress message that the link loses changes nothing at the coordinator.
void Agent::State::load_moved(const LoadProgress& message) {
  Replica& replica = replicas.at(message.replica);
  if (replica.state != ReplicaState::kLoading) return drop();
  replica.due = now + load_limit_of(replica);
  if (!say(message)) drop();
}

// The limit grows with the size: hashing what was read reports no progress.
Duration Agent::State::load_limit_of(const Replica& replica) const {
  const Trainer& trainer = trainers[static_cast<std::size_t>(replica.slot)];
  return stall_for(options.load_limit, memory_of(replica.assign, trainer.device.kind));
}

void Agent::State::loaded(const Loaded& message) {
  Replica& replica = replicas.at(message.replica);
  if (auto record = replica.coming.take(message.key)) {
    replica.held.key = message.key;
    replica.held.anchor = message.anchor;
    replica.held.momentum = message.momentum;
    replica.held.value_count = message.value_count;
    replica.held.address = message.address;
    replica.held.fragments = message.fragments;
    replica.held.record = std::move(*record);
  }
  if (replica.state != ReplicaState::kLoading) return;
  move(replica.state, ReplicaEvent::kLoaded);
  replica.due.reset();
  drop_unused_fetches();
}

bool Agent::State::is_on(ReplicaId id, std::int32_t slot) const {
  const Replica* replica = replicas.find(id);
  return replica != nullptr && replica->slot == slot && replica->state != ReplicaState::kWaiting;
}

}  // namespace shoal::agent
